"""Messages that a loop would repeat are logged once, until there is another of the same subject."""
import logging


class Once:
    def __init__(self, log):
        self._log = log
        self._said = {}

    def say(self, subject, text, level=logging.WARNING):
        if self._said.get(subject) != text:
            self._said[subject] = text
            self._log.log(level, "%s: %s", subject, text)

    def forget(self, subject):
        self._said.pop(subject, None)
