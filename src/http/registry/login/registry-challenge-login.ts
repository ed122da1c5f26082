import type { IncomingMessage } from 'node:http';
import type { Rights } from '../../../hosted/accounts/index.ts';
import { type Authenticator, tokenName } from '../../../hosted/index.ts';
import { mayPullServed, mayUse, requireScope } from '../../../platform/built-in/index.ts';
import { homeRights, type Identity } from '../../../platform/index.ts';
import type { ContainerRequest } from '../../../request/index.ts';
import type { Identify } from '../../callers/identify.ts';
import { isFailedLogin, type LoginLimit } from '../../limits/login-limit.ts';
import { noteSender, stateOf } from '../../request-state.ts';

/** A name and a password, as registry clients send them. */
export interface NamedPassword {
  readonly name: string;
  readonly password: string;
}

/** What a login gives. */
export interface RegistryLogin {
  /** The rights to hosted repositories. */
  readonly rights: Rights;
  /** Returns whether the login lets a client pull a served name, where pulls require one. */
  mayPull(name: string): Promise<boolean>;
}

/**
 * Returns what a name and password give, undefined when they are wrong. Under the name
 * {@link tokenName} the password is a bearer token, or an access token of the default platform, which gives the rights of
 * everybody and those to the user's own repositories, as far as its own limits go. Throws a {@link Fault}: 403
 * for an access token that may not pull, 429 where too many have been wrong, 5xx for a platform that does not answer.
 */
export type LogIn = (
  request: IncomingMessage,
  login: NamedPassword,
) => Promise<RegistryLogin | undefined>;

export interface LogInDeps {
  readonly authenticator: Authenticator;
  readonly logins: LoginLimit;
  readonly identify: Identify;
  /** Host in the names of hosted images. */
  readonly host: string;
  /** Returns the container request that a served name stands for; undefined for none. */
  readonly servedRequest: (name: string) => Promise<ServedRequest | undefined>;
}

type ServedRequest = Pick<ContainerRequest, 'image' | 'isBuilt' | 'caller'>;

const mayPull = async () => true;

export function createLogIn({
  authenticator,
  logins,
  identify,
  host,
  servedRequest,
}: LogInDeps): LogIn {
  const userOf = async (request: IncomingMessage, platformAccessToken: string) => {
    try {
      return await identify(request, { platformAccessToken });
    } catch (error) {
      if (isFailedLogin(error)) return undefined;
      throw error;
    }
  };
  const loginOf = (identity: Omit<Identity, 'name'>): RegistryLogin => {
    const { rights, scope } = identity;
    requireScope(rights, 'pull');
    const all: Rights = name => [
      ...new Set([...authenticator.anybody(name), ...homeRights(identity, `${host}/${name}`)]),
    ];
    if (!rights?.repositories) return { rights: all, mayPull };
    return {
      rights: name => (mayUse(rights, host, name, host) ? all(name) : []),
      async mayPull(name) {
        const request = await servedRequest(name);
        return request !== undefined && mayPullServed({ rights, scope }, request, host);
      },
    };
  };
  return async (request, { name, password }) => {
    // A bearer token cannot be guessed. It fails when it expires, so builders continue while others guess.
    const isToken = name === tokenName;
    const check = () => logins.check(request);
    if (!isToken) check();
    const rights = await authenticator.withPassword(name, password, check);
    if (rights) {
      if (isToken) stateOf(request).hasServerToken = true;
      else noteSender(request, { account: name });
      return { rights, mayPull };
    }
    if (!isToken) logins.fail(request);
    // The password of an account goes to no platform.
    const user = isToken ? await userOf(request, password) : undefined;
    return user && loginOf(user);
  };
}
