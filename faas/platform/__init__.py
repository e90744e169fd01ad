"""The one-box platform: an activator that holds requests at zero and forwards them, and an autoscaler like Knative's."""
