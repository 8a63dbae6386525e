"""Magics and shell lines, and what get_ipython() gives where IPython is not used."""
import builtins
import os
import sys


class UsageError(Exception):
    pass


class Config(dict):
    def __getattr__(self, name):
        raise AttributeError(name)


class Magics:
    def __init__(self, session):
        self.session = session
        self.source = session.load_source()
        self.config, self.kernel = Config(), None

    def transform(self, source):
        return self.source.transform(source)
