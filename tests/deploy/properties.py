"""How the property tests of this folder run: no deadline, since the machine may be busy, and nothing left on disk."""

from hypothesis import HealthCheck, settings

unhurried = settings(deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
