import type { IncomingMessage } from 'node:http';
import { type Keeper, tokenName } from '../../../hosted/keeper.ts';
import type { Rights } from '../../../hosted/rights.ts';
import type { Callers } from '../../callers/callers.ts';
import type { Identify } from '../../callers/identify.ts';
import { isFailedLogin, type LoginLimit } from '../../limits/login-limit.ts';

/** A name and a password, as registry clients send them. */
export interface NamedPassword {
  readonly name: string;
  readonly password: string;
}

/**
 * Returns the rights behind a name and password, undefined when they are wrong. Under the name
 * {@link tokenName} the password is a bearer token or, where users of the platform may log in, an access token
 * of the default platform, which gives the rights of everybody. Throws a {@link Fault}: 429 where too many
 * have been wrong, 5xx for a platform that does not answer.
 */
export type LogIn = (request: IncomingMessage, login: NamedPassword) => Promise<Rights | undefined>;

export interface LogInDeps {
  readonly keeper: Keeper;
  readonly logins: LoginLimit;
  readonly identify: Identify;
  readonly callers: Callers;
  /** Users of the platform may log in. */
  readonly takesAccessTokens: boolean;
}

export function createLogIn({
  keeper,
  logins,
  identify,
  callers,
  takesAccessTokens,
}: LogInDeps): LogIn {
  const isUser = async (request: IncomingMessage, platformAccessToken: string) => {
    try {
      return (await identify(request, { platformAccessToken })) !== undefined;
    } catch (error) {
      if (isFailedLogin(error)) return false;
      throw error;
    }
  };
  return async (request, { name, password }) => {
    // A bearer token cannot be guessed. It fails when it expires, so builders continue while others guess.
    const isToken = name === tokenName;
    const check = () => logins.check(request);
    if (!isToken) check();
    const rights = await keeper.withPassword(name, password, check);
    if (rights) {
      if (isToken) callers.noteServerToken(request);
      else callers.note(request, { account: name });
      return rights;
    }
    if (!isToken) logins.fail(request);
    // The password of an account goes to no platform.
    const isAccessToken = isToken && takesAccessTokens && (await isUser(request, password));
    return isAccessToken ? keeper.anybody : undefined;
  };
}
