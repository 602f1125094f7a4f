"""Arrow values as the plain Python values that the same records have in JSON Lines.

The form follows from the column's declared type alone, never from the data:

=====================================  =====================================================================
null, booleans, integers, strings      themselves
floats                                 float64; NaN and infinity are faults
lists, fixed-size lists, views         lists
structs                                objects; members that are null are left out, at every depth
maps                                   objects where keys are strings, else lists of [key, value]
dictionaries, extension types          the values, the storage
decimals                               text, in full ("12.50")
dates, times, timestamps               ISO 8601 text; instants (with a time zone) in UTC with "+00:00"
durations                              the integer of their unit
binary                                 bytes; only as a whole column, not inside others
=====================================  =====================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

from dsbuild.readers.faults import Fault

Mend = Callable[[Any], Any]

_NANOS = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}


def bare_type(type_: Any) -> Any:
    """``type_`` with what pyarrow can't give as stable Python values replaced by integers and storage."""
    import pyarrow as pa
    from pyarrow import types

    if types.is_dictionary(type_):
        return bare_type(type_.value_type)
    if isinstance(type_, pa.BaseExtensionType):
        return bare_type(type_.storage_type)
    if types.is_date32(type_) or types.is_time32(type_):
        return pa.int32()
    if types.is_temporal(type_) and not types.is_interval(type_):
        return pa.int64()
    if types.is_struct(type_):
        return pa.struct([field.with_type(bare_type(field.type)) for field in type_])
    if types.is_map(type_):
        return pa.map_(bare_type(type_.key_type), bare_type(type_.item_type))
    if types.is_large_list(type_):
        return pa.large_list(type_.value_field.with_type(bare_type(type_.value_type)))
    if types.is_fixed_size_list(type_):
        return pa.list_(type_.value_field.with_type(bare_type(type_.value_type)), type_.list_size)
    if types.is_list(type_):
        return pa.list_(type_.value_field.with_type(bare_type(type_.value_type)))
    return type_


def is_binary(type_: Any) -> bool:
    """Whether a column of ``type_`` holds bytes."""
    from pyarrow import types

    checks = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary, types.is_binary_view)
    return any(check(bare_type(type_)) for check in checks)


def mend(type_: Any, *, shown: bool = True, inner: bool = False) -> Mend | None:
    """The function from pyarrow's Python value of ``bare_type(type_)`` to ours, None where they are the same.

    ``shown``: the values become a column, so that what JSON lacks is a fault; else they only enter the split key.
    ``inner``: inside another type. Raises ``Fault`` for a type that has no form.
    """
    import pyarrow as pa
    from pyarrow import types

    def member(of: Any) -> Mend | None:
        return mend(of, shown=shown, inner=True)

    if types.is_dictionary(type_):
        return mend(type_.value_type, shown=shown, inner=inner)
    if isinstance(type_, pa.BaseExtensionType):
        return mend(type_.storage_type, shown=shown, inner=inner)
    if types.is_struct(type_):
        return _object({field.name: member(field.type) for field in type_})
    if types.is_map(type_):
        return _map(_is_text(bare_type(type_.key_type)), member(type_.key_type), member(type_.item_type))
    if _is_list(type_):
        return _list(member(type_.value_type))
    if is_binary(type_):
        if inner and shown:
            raise Fault("bytes inside a list, struct or map, which have no JSON form")
        return None
    return _scalar(type_, shown)


def _scalar(type_: Any, shown: bool) -> Mend | None:
    from pyarrow import types

    if types.is_floating(type_):
        return _finite if shown else float
    if types.is_decimal(type_):
        return lambda value: format(value, "f")
    if types.is_temporal(type_) and not types.is_interval(type_):
        return _time(type_)
    if types.is_null(type_) or types.is_boolean(type_) or types.is_integer(type_) or _is_text(type_):
        return None
    if shown:
        raise Fault(f"a column of type {type_}, which has no JSON form")
    return str


def _is_text(type_: Any) -> bool:
    from pyarrow import types

    return bool(types.is_string(type_) or types.is_large_string(type_) or types.is_string_view(type_))


def _is_list(type_: Any) -> bool:
    from pyarrow import types

    checks = (
        types.is_list,
        types.is_large_list,
        types.is_fixed_size_list,
        types.is_list_view,
        types.is_large_list_view,
    )
    return any(check(type_) for check in checks)


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise Fault("a number that is NaN or infinite")
    return number


def _object(members: dict[str, Mend | None]) -> Mend:
    plain = all(change is None for change in members.values())

    def change(value: dict[str, Any]) -> dict[str, Any]:
        if plain:
            return {name: item for name, item in value.items() if item is not None}
        return {name: _apply(members[name], item) for name, item in value.items() if item is not None}

    return change


def _list(member: Mend | None) -> Mend | None:
    if member is None:
        return None
    return lambda value: [None if item is None else member(item) for item in value]


def _map(text_keys: bool, key: Mend | None, item: Mend | None) -> Mend:
    def change(value: list[tuple[Any, Any]]) -> Any:
        pairs = [(_apply(key, k), None if v is None else _apply(item, v)) for k, v in value]
        return dict(pairs) if text_keys else [list(pair) for pair in pairs]

    return change


def _apply(change: Mend | None, value: Any) -> Any:
    return value if change is None else change(value)


def _time(type_: Any) -> Mend | None:
    from pyarrow import types

    if types.is_duration(type_):
        return None
    if types.is_date(type_):
        days = 1 if types.is_date32(type_) else 86_400_000
        return lambda value: _day(value // days)
    nanos = _NANOS[type_.unit]
    if types.is_time(type_):
        return lambda value: _clock(value * nanos)
    zone = "" if type_.tz is None else "+00:00"
    return lambda value: _instant(value * nanos, zone)


def _day(days: int) -> str:
    try:
        return (date(1970, 1, 1) + timedelta(days=days)).isoformat()
    except OverflowError:
        raise Fault("a date outside the years 1 to 9999") from None


def _instant(nanos: int, zone: str) -> str:
    seconds, rest = divmod(nanos, 10**9)
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    except OverflowError:
        raise Fault("a time outside the years 1 to 9999") from None
    return moment.isoformat()[:19] + _fraction(rest) + zone


def _clock(nanos: int) -> str:
    seconds, rest = divmod(nanos, 10**9)
    if not 0 <= seconds < 86_400:
        raise Fault("a time of day outside 00:00 to 24:00")
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{_fraction(rest)}"


def _fraction(nanos: int) -> str:
    """Nothing, six digits, or nine where six do not do."""
    if nanos == 0:
        return ""
    return f".{nanos // 1000:06}" if nanos % 1000 == 0 else f".{nanos:09}"
