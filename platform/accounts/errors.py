"""What can go wrong about who is asking and what they may touch."""

from core.errors import CHECK_MEMBERSHIP, Blame, Conflict, ErrorKind, InvalidInput, NotFound, PlatformError


class NotSignedIn(PlatformError):
    """Nobody is signed in, or the token is unknown, expired or revoked."""

    code = "accounts.not_signed_in"
    kind = ErrorKind.UNAUTHENTICATED
    hint = "Sign in, or run `nearline login` with a valid token."


class TooManyAttempts(PlatformError):
    """Too many worthless tokens or wrong passwords came from one address or for one person."""

    code = "accounts.too_many_attempts"
    kind = ErrorKind.THROTTLED
    hint = "Stop whatever repeats the request, wait five minutes, then use a valid token."


class PermissionDenied(PlatformError):
    """The caller is known but may not do this."""

    code = "accounts.permission_denied"
    kind = ErrorKind.DENIED
    hint = "Ask an admin of the project for a role that allows it; what only site admins may do, a site admin."


class ProjectNotFound(NotFound):
    """No such project, or the caller is not a member of it."""

    code = "accounts.project_not_found"
    hint = CHECK_MEMBERSHIP


class ProjectDeleted(NotFound):
    """The project is deleted. Only those who may restore it are told so."""

    code = "accounts.project_deleted"
    hint = "`nearline project deleted` says until when it can be restored, `nearline project restore NAME` does."


class DeletedProjectNotFound(NotFound):
    """No deleted project has that name, or the caller may not restore it, or its time to be restored is over."""

    code = "accounts.deleted_project_not_found"
    hint = "`nearline project deleted` lists those that you may restore."


class ProjectExists(Conflict):
    """The project's name is taken."""

    code = "accounts.project_exists"
    hint = "Choose another name."


class InvalidName(InvalidInput):
    """A name breaks the rules for names."""

    code = "accounts.invalid_name"
    hint = "Use 1 to 63 lower-case letters, digits and dashes, starting with a letter."


class PersonExists(Conflict):
    """The person's name is taken."""

    code = "accounts.person_exists"
    hint = "Choose another name."


class WeakPassword(InvalidInput):
    """A password is too easy to guess."""

    code = "accounts.weak_password"
    hint = "Use at least ten characters that are no common password."


class InvalidSecretName(InvalidInput):
    """A name cannot be that of an environment variable."""

    code = "accounts.invalid_secret_name"
    hint = "Use up to 100 letters, digits and underscores, and no digit first. PATH, LD_* and NEARLINE_* are taken."


class PersonDisabled(PlatformError):
    """The person was disabled by a site admin and cannot sign in."""

    code = "accounts.person_disabled"
    kind = ErrorKind.DENIED
    hint = "Ask a site admin to enable the account."


class LastAdmin(Conflict):
    """The change would leave a project, or the site, without an admin."""

    code = "accounts.last_admin"
    hint = "Make someone else an admin first."


class UserNotFound(NotFound):
    """No user has that name."""

    code = "accounts.user_not_found"
    hint = "Check the spelling; an admin can add users."


class TokenNotFound(NotFound):
    """The caller has no such token."""

    code = "accounts.token_not_found"
    hint = "It may be revoked already; your tokens are listed on the settings page."


class SecretUnreadable(Conflict):
    """A secret was stored with another key of the installation than the present one, and can only be set again."""

    code = "accounts.secret_unreadable"
    blame = Blame.PLATFORM
    hint = "It was encrypted with another key of the installation. Set it again: `nearline secret set NAME`."


class SecretNotFound(NotFound):
    """The project has no secret of that name."""

    code = "accounts.secret_not_found"
    hint = "An admin of the project sees and sets them on its settings page, or by `nearline secret`."
