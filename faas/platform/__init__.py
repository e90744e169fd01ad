"""The one-box platform: an activator that holds requests at zero and forwards them, and Knative's autoscaler."""
