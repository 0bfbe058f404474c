"""Runs commands in a landstrip sandbox, and asks landstrip about policies. ``landstrip.aio`` is the same for asyncio."""

from ._asking import Granted, Question, Reply
from ._invocation import Command, Policies, Report, wrap
from ._program import program
from ._questions import Answer, Kept, Learnt, check, denials, explain, learn
from ._reports import Denial, Failure, Origin, Result, Rule
from ._run import Completed, Process, run, spawn
from .policy import Policy

__all__ = [
    "Answer",
    "Command",
    "Completed",
    "Denial",
    "Failure",
    "Granted",
    "Kept",
    "Learnt",
    "Origin",
    "Policies",
    "Policy",
    "Process",
    "Question",
    "Reply",
    "Report",
    "Result",
    "Rule",
    "check",
    "denials",
    "explain",
    "learn",
    "program",
    "run",
    "spawn",
    "wrap",
]
