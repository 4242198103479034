"""Whom a token belongs to: static tokens and JWTs, and what each may access.

1. Without any token or key the server is open: everybody on the machine may do everything.
2. A static token is compared by its hash, in a time that says nothing about it.
3. A JWT is checked with the algorithms that fit the kind of the configured key and no others; it must expire.
   The claim `role: "admin"` grants everything, `prefix: "..."` what that prefix covers; neither: nothing.
   With `read_only: true` it may look at that, and change nothing.
"""

import hashlib
import hmac
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from holdfast.protocol.errors import Refusal
from holdfast.protocol.wire import RawEnvelope, RefusedRequest
from holdfast.server.asgi import Headers, header
from holdfast.server.errors import Forbidden, MissingExtra, SettingsError, Unauthenticated
from holdfast.server.grants import ADMIN, Grant
from holdfast.server.settings import Settings

remembered_max: Final = 10_000
token_bytes_max: Final = 8_192
array_tokens_max: Final = 4
READ_ONLY: Final = "read-only"
NAME: Final = "name="


class Authenticator:
    def __init__(self, settings: Settings) -> None:
        self._tokens = _static_tokens(settings)
        self._jwt = _JwtCheck(settings) if settings.jwt_key else None
        self._remembered: dict[bytes, tuple[Grant, float]] = {}
        self.is_open = not self._tokens and self._jwt is None

    def grant(self, token: str | None) -> Grant:
        """What the bearer of a token may do. Raises `Unauthenticated` or `Forbidden`."""
        if self.is_open:
            return ADMIN
        if not token or len(token) > token_bytes_max:
            raise Unauthenticated("This server needs a token")
        try:
            digest = hashlib.sha256(token.encode()).digest()
        except UnicodeEncodeError:  # half a character: no token that anybody was given
            raise Unauthenticated("The token is not known") from None
        known = self._remembered.get(digest)
        if known is not None and known[1] > time.time():
            return known[0]
        return self._check(token, digest)

    def holds_until(self, token: str | None) -> float | None:
        """The instant (Unix seconds) at which a token that was accepted expires; None: never."""
        known = self._remembered.get(hashlib.sha256((token or "").encode("utf-8", "replace")).digest())
        return None if known is None else known[1]

    def grants_or_refusals(
        self, bearer: str | None, items: Sequence[RawEnvelope | RefusedRequest]
    ) -> list[Grant | Refusal]:
        """The same for each of an array, which may hold a few tokens: checking one takes time."""
        known: dict[str | None, Grant | Refusal] = {}
        for item in items:
            own = _own_token(item)
            if own not in known and len(known) < array_tokens_max:
                known[own] = self.grant_or_refusal(bearer, item)
        return [known.get(_own_token(item), _too_many_tokens) for item in items]

    def grant_or_refusal(self, bearer: str | None, item: RawEnvelope | RefusedRequest) -> Grant | Refusal:
        """The token of the header and that of the envelope count the same; they must not differ."""
        own = _own_token(item)
        if (
            own
            and bearer
            and not hmac.compare_digest(own.encode("utf-8", "replace"), bearer.encode("utf-8", "replace"))
        ):
            return Unauthenticated("The token in head.auth is not the one in the Authorization header")
        try:
            return self.grant(own or bearer)
        except Refusal as refusal:
            return refusal.with_traceback(None)

    def _check(self, token: str, digest: bytes) -> Grant:
        found: Grant | None = None
        for known, grant in self._tokens:  # all of them, always
            if hmac.compare_digest(known, digest):
                found = grant
        if found is not None:
            return found
        if self._jwt is None:
            raise Unauthenticated("The token is not known")
        grant, expires = self._jwt.check(token)
        if len(self._remembered) >= remembered_max:
            self._remembered.clear()
        self._remembered[digest] = (grant, expires)
        return grant


_too_many_tokens: Final = Unauthenticated(f"An array may hold {array_tokens_max} different tokens")


def _own_token(item: RawEnvelope | RefusedRequest) -> str | None:
    return item.auth if isinstance(item, RawEnvelope) else None


def bearer_of(headers: Headers) -> str | None:
    value = header(headers, b"authorization")
    if value is None or value[:7].lower() != b"bearer ":
        return None
    return value[7:].strip().decode("latin-1")


def _static_tokens(settings: Settings) -> list[tuple[bytes, Grant]]:
    lines = [*settings.tokens]
    if settings.token_file:
        try:
            text = Path(settings.token_file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"token_file cannot be read: {type(error).__name__}.") from None
        listed = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
        if not listed:
            raise SettingsError(
                "token_file holds no token, which would let everybody in. Add one, or leave it out."
            )
        lines += listed
    tokens: list[tuple[bytes, Grant]] = []
    for line in lines:
        parts, read_only, name = _without_options(line.split())
        if not 1 <= len(parts) <= 2 or len(parts[-1]) < 8:
            raise SettingsError(
                "A static token is 'TOKEN' or 'PREFIX TOKEN', with a TOKEN of 8 characters or more; "
                "behind it there may be 'read-only' and 'name=NAME'."
            )
        digest = hashlib.sha256(parts[-1].encode()).digest()
        prefix = "" if len(parts) == 1 else parts[0]
        tokens.append((digest, Grant(prefix, read_only, name or f"token {digest.hex()[:8]}")))
    return tokens


def _without_options(parts: list[str]) -> tuple[list[str], bool, str]:
    """What may stand behind a token: whether it may only look, and whose it is."""
    read_only, name = False, ""
    while len(parts) > 1 and (parts[-1] == READ_ONLY or parts[-1].startswith(NAME)):
        last, parts = parts[-1], parts[:-1]
        if last == READ_ONLY:
            read_only = True
        else:
            name = last.removeprefix(NAME)[:80]
    return parts, read_only, name


class _JwtCheck:
    def __init__(self, settings: Settings) -> None:
        try:
            import jwt
            from cryptography.hazmat.primitives.serialization import load_pem_public_key
        except ImportError:
            raise MissingExtra("jwt_key", "jwt", "pyjwt with cryptography") from None
        try:
            key = load_pem_public_key(Path(settings.jwt_key).read_bytes())
        except OSError as error:
            raise SettingsError(f"jwt_key cannot be read: {error.strerror}.") from None
        except ValueError:
            raise SettingsError("jwt_key is not a PEM public key.") from None
        self._jwt = jwt
        self._key: Any = key
        self._algorithms = _algorithms_for(key)
        self._issuer = settings.jwt_issuer or None
        self._audience = settings.jwt_audience or None
        self._leeway_s = settings.jwt_leeway_s

    def check(self, token: str) -> tuple[Grant, float]:
        """The grant, and the instant (Unix seconds) until which it holds."""
        try:
            claims = self._jwt.decode(
                token,
                self._key,
                algorithms=self._algorithms,
                issuer=self._issuer,
                audience=self._audience,
                leeway=self._leeway_s,
                options={"require": ["exp"], "verify_aud": self._audience is not None},
            )
            expires = float(claims["exp"]) + self._leeway_s
        except (self._jwt.PyJWTError, ArithmeticError, TypeError, ValueError, RecursionError) as error:
            raise Unauthenticated(f"The token was not accepted ({type(error).__name__})") from None
        return grant_of(claims), expires


def grant_of(claims: dict[str, Any]) -> Grant:
    subject = claims.get("sub")
    name = subject[:80] if isinstance(subject, str) and subject else "jwt"
    read_only = claims.get("read_only", False)
    if not isinstance(read_only, bool):
        raise Forbidden("The claim read_only of the token is neither true nor false")
    if claims.get("role") == "admin":
        return Grant("", read_only, name)
    prefix = claims.get("prefix")
    if not isinstance(prefix, str) or not prefix:
        raise Forbidden("The token has neither the role admin nor a prefix")
    return Grant(prefix, read_only, name)


def _algorithms_for(key: object) -> list[str]:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    if isinstance(key, Ed25519PublicKey):
        return ["EdDSA"]
    if isinstance(key, RSAPublicKey) and key.key_size >= 2_048:
        return ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"]
    if isinstance(key, EllipticCurvePublicKey):
        algorithm = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}.get(key.curve.name)
        if algorithm is not None:
            return [algorithm]
    raise SettingsError(
        "jwt_key must be an Ed25519 key, an RSA key of 2,048 bits or more, or an EC key (P-256, 384, 521)."
    )
