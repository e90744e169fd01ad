"""Which variant of a function answers a call: by the time that is left, or by what feedback has taught."""
