import loadgen
from benchmarks.sentences import sentences


def test_the_sentences_are_distinct_and_of_many_lengths():
    found = sentences()
    lengths = sorted(len(sentence.split()) for sentence in found)
    assert len(set(found)) == len(found) > 150
    assert lengths[0] <= 4
    assert lengths[-1] >= 40
    assert all(sentence.strip() == sentence != "" for sentence in found)
    assert len(loadgen.Workload.json("http://127.0.0.1:1/", found).bodies) == len(found)
