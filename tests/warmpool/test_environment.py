import pytest

from warmpool.environment import Environment
from warmpool.errors import EnvironmentInvalid


def test_equal_environments_are_one_key():
    assert len({Environment(modules=("a", "b")), Environment(modules=("a", "b")), Environment(modules=("b", "a"))}) == 2


@pytest.mark.parametrize("name", ["", "a b", "a.", ".a", "a\nb", "a-b", "a/b"])
def test_a_name_that_is_no_module_is_refused(name):
    with pytest.raises(EnvironmentInvalid, match="is not the name of a module"):
        Environment(modules=(name,))
