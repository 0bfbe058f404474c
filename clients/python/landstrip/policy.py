"""Policies as typed data. Written by the broker's unit tests, from its table of keys: LANDSTRIP_WRITE_TABLE=1 cargo test."""

import typing
from typing import Literal, Optional, TypedDict, Union

#: A list of a policy: strings, or one string with an item a line.
List = Union[typing.List[str], typing.Tuple[str, ...], str, None]


class FilesystemRules(TypedDict, total=False):
    """The keys in ``filesystem``."""

    #: paths that may be written
    allowWrite: List
    #: paths that may not be written, inside allowWrite too
    denyWrite: List
    #: paths that may be written again inside denyWrite, as far as allowWrite reaches
    allowWriteInside: List
    #: paths that may not be read; everything else may
    denyRead: List
    #: paths that may be read again inside denyRead
    allowRead: List


class NetworkRules(TypedDict, total=False):
    """The keys in ``network``."""

    #: whether IP networking is unrestricted
    allowNetwork: Optional[bool]
    #: hosts that may be reached through landstrip's own proxies
    allowedDomains: List
    #: hosts that are denied, even if allowedDomains has them
    deniedDomains: List
    #: allowed hosts that may have private addresses
    privateDomains: List
    #: lines as in /etc/hosts, for this run
    hosts: List
    #: the port of an HTTP proxy on this host
    httpProxyPort: Optional[int]
    #: the port of a SOCKS5 proxy on this host
    socksProxyPort: Optional[int]
    #: whether the command may have servers for itself
    allowLocalBinding: Optional[bool]
    #: Unix sockets that may be connected to and bound, by path
    allowUnixSockets: List
    #: whether all Unix sockets that have a path are allowed
    allowAllUnixSockets: Optional[bool]


class EnvironmentRules(TypedDict, total=False):
    """The keys in ``environment``."""

    #: variables of the caller that the command gets; all, without this key
    allow: List
    #: variables that it does not get, even if allow has them
    deny: List
    #: variables with their values
    set: Optional[typing.Dict[str, Optional[str]]]


class LimitsRules(TypedDict, total=False):
    """The keys in ``limits``."""

    #: how much memory the command and all that it starts may use together
    memory: Union[int, str, None]
    #: how many processes and threads there may be at a time
    processes: Optional[int]
    #: how much processor time they may take together
    cpuSeconds: Optional[int]
    #: how long the run may take
    wallSeconds: Optional[int]
    #: how long each file may become
    fileSize: Union[int, str, None]


class ReportRules(TypedDict, total=False):
    """The keys in ``report``."""

    #: whether refused reads are watched and reported
    reads: Optional[bool]
    #: whether refusals are kept for landstrip --denials
    keep: Optional[bool]


class AskRules(TypedDict, total=False):
    """The keys in ``ask``."""

    #: how long a question of landstrip --ask waits for its answer; 60 by default
    timeoutSeconds: Optional[int]


class FilesystemRulesWithout(TypedDict, total=False):
    """The lists in ``filesystem``."""

    allowWrite: List
    denyWrite: List
    allowWriteInside: List
    denyRead: List
    allowRead: List


class NetworkRulesWithout(TypedDict, total=False):
    """The lists in ``network``."""

    allowedDomains: List
    deniedDomains: List
    privateDomains: List
    hosts: List
    allowUnixSockets: List


class EnvironmentRulesWithout(TypedDict, total=False):
    """The lists in ``environment``."""

    deny: List


class Without(TypedDict, total=False):
    """Rules to take out of what a policy extends."""

    filesystem: Optional[FilesystemRulesWithout]
    network: Optional[NetworkRulesWithout]
    environment: Optional[EnvironmentRulesWithout]


_Odd = TypedDict("_Odd", {"$schema": str}, total=False)


class Policy(_Odd, total=False):
    """A policy, as landstrip-policy(5) describes it."""

    #: presets, or files relative to this one, that this policy adds to
    extends: List
    #: rules to take out of what this policy extends, by the same keys and words
    without: Optional[Without]
    #: of which processes the command may read in /proc: all, or its own
    processes: Optional[Literal["all", "own"]]
    #: what is refused without a report, by words of the command line, or * for all
    ignoreViolations: Optional[typing.Dict[str, List]]
    #: whether to run with less protection where another sandbox leaves no listener
    enableWeakerNestedSandbox: Optional[bool]
    filesystem: Optional[FilesystemRules]
    network: Optional[NetworkRules]
    environment: Optional[EnvironmentRules]
    limits: Optional[LimitsRules]
    report: Optional[ReportRules]
    ask: Optional[AskRules]
