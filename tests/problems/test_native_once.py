"""Answers that are made once."""

import threading
import time

from gossamer.problems.native import once


def test_threads_that_ask_at_once_get_one_answer():
    made, answers, together = [], [], threading.Barrier(4)

    @once
    def answer(key: str) -> object:
        made.append(key)
        time.sleep(0.05)  # the others come meanwhile
        return object()

    def ask() -> None:
        together.wait()
        answers.append(answer("a"))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == ["a"]
    assert len(set(map(id, answers))) == 1
    answer.cache_clear()
    assert answer("a") is not answers[0]
