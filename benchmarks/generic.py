"""The platform with generic zygotes alone: an instance finds its code and thaws its state after it was forked.

python -m benchmarks.generic up TARGET ... takes what `faas up` does. Of that platform's zygotes each is hot where it
can be; what they are worth shows beside this one.
"""

from faas.cli.main import main
from faas.platform import forking
from faas.preparation import Preparation
from warmpool.environment import Environment

_hot = forking.environment


def _generic(preparation: Preparation) -> Environment:
    return _hot(preparation).base


forking.environment = _generic

if __name__ == "__main__":
    main()
