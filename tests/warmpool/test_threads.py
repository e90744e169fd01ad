import pytest

from warmpool.threads import Limits, plan


@pytest.mark.parametrize(
    ("environ", "omp", "mkl", "openblas"),
    [
        ({}, "4", "4", "4"),
        ({"OMP_NUM_THREADS": "3"}, "3", "3", "3"),
        ({"OMP_NUM_THREADS": "3", "MKL_NUM_THREADS": "2"}, "3", "2", "3"),
        ({"OPENBLAS_NUM_THREADS": "1"}, "4", "4", "1"),
        ({"OMP_NUM_THREADS": "3,2"}, "3,2", "3", "3"),
        ({"OMP_NUM_THREADS": "many"}, "4", "4", "4"),
        ({"OMP_NUM_THREADS": "0"}, "4", "4", "4"),
    ],
)
def test_or_04_the_user_s_own_values_win(environ, omp, mkl, openblas):
    assert plan(environ, 4) == {"OMP_NUM_THREADS": omp, "MKL_NUM_THREADS": mkl, "OPENBLAS_NUM_THREADS": openblas}


def test_each_library_is_set_by_its_own_variable():
    called: list[tuple[str, int]] = []
    limits = Limits(
        quota_files=[],
        setters=[
            ("OMP_NUM_THREADS", lambda count: called.append(("gomp", count))),
            ("OPENBLAS_NUM_THREADS", lambda count: called.append(("openblas", count))),
        ],
    )
    environ = {"OMP_NUM_THREADS": "3,1", "OPENBLAS_NUM_THREADS": "2"}
    limits.apply(environ, num_workers=1)
    assert called == [("gomp", 3), ("openblas", 2)]
    assert environ == {"OMP_NUM_THREADS": "3,1", "MKL_NUM_THREADS": "3", "OPENBLAS_NUM_THREADS": "2"}
