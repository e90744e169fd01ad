import subprocess
import sys

import faas


def test_every_public_name_is_there_and_listed():
    assert sorted(faas._HOME_OF) == sorted(faas.__all__)
    for name in faas.__all__:
        assert getattr(faas, name) is not None
        assert name in dir(faas)


def test_importing_the_package_imports_nothing_else():
    code = "import faas, sys; print([n for n in sys.modules if n.startswith('faas.') or n in ('msgspec', 'asyncio')])"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
