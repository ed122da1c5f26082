import type { IncomingMessage } from 'node:http';
import { Fault } from '../../../foundation/fault.ts';
import type { Action, Rights } from '../../../hosted/accounts/index.ts';
import {
  type Authenticator,
  allowsPull,
  type RegistryTokens,
  type RepositorySources,
  tokenName,
  unknownRepository,
} from '../../../hosted/index.ts';
import { requireScope } from '../../../platform/built-in/index.ts';
import type { Caller } from '../../../request/index.ts';
import { readBasic, readBearer } from '../../callers/identify.ts';
import { type Openness, pullsAreOff } from '../../gates/access-gate.ts';
import { noteSender, stateOf } from '../../request-state.ts';
import { type LogIn, userRights } from './token-route.ts';

/** Admits callers that have the right, and challenges the others. */
export interface RegistryAuth {
  /**
   * Returns the rights of the caller of a request that requires one of them. Throws a {@link Fault} for a caller
   * without it: 401 with a challenge where a login or another token may help, else 403, and 429 for a login
   * after too many failed ones. Whether the repository exists makes no difference.
   * A challenge also names the repository from which to mount a blob. Without a right to it, the client uploads it.
   */
  admit(
    request: IncomingMessage,
    repository: string,
    action: Action,
    mountedFrom?: string,
  ): Promise<Rights>;
  /**
   * Returns the rights of a caller that lists repositories. Throws a {@link Fault}: 401 with a challenge for wrong
   * credentials, for none where accounts exist, and for a token that may not list them, 429 as above.
   */
  admitList(request: IncomingMessage): Promise<Rights>;
  /**
   * Admits a pull of a served name. If pulls require a login, the client must have logged in, by name and password or
   * with a token for the name. Otherwise throws a {@link Fault}: 401 with a challenge, 429 as above; 403 if pulls are
   * disabled.
   */
  admitPull(request: IncomingMessage, name: string): Promise<void>;
  /** Decides about `GET /v2/`: returns for 200, otherwise throws the challenge. */
  ping(request: IncomingMessage): Promise<void>;
}

/** The sender of a request. Its rights are undefined when the credentials are wrong. */
interface Visitor {
  readonly kind: 'anybody' | 'account' | 'token';
  readonly rights: Rights | undefined;
}

interface RegistryAuthDeps {
  readonly authenticator: Authenticator;
  readonly tokens: RegistryTokens;
  /** URL of the token service. */
  readonly realm: string;
  readonly logIn: LogIn;
  /** Who may pull served names. */
  readonly pulls: Openness;
}

/** Source: distribution's token authentication specification. */
export function createRegistryAuth(deps: RegistryAuthDeps): RegistryAuth {
  const { authenticator, tokens, realm, logIn, pulls } = deps;
  const { service } = tokens;
  const challenge = (message: string, details: Readonly<Record<string, string>> = {}): Fault => {
    const parameters = Object.entries({ realm, service, ...details });
    const text = parameters.map(([name, value]) => `${name}="${value}"`).join(',');
    return new Fault('unauthorized', message, {
      phase: 'credentials',
      headers: { 'www-authenticate': `Bearer ${text}` },
    });
  };

  /** Returns the content of a bearer token; undefined for an invalid one. */
  const noteHolder = async (request: IncomingMessage, bearer: string) => {
    const token = await tokens.read(bearer);
    const { account, user } = token ?? {};
    if (account !== undefined || user !== undefined) noteSender(request, { account, user });
    else if (token) stateOf(request).hasServerToken = true;
    return token;
  };

  const visitorOf = async (request: IncomingMessage): Promise<Visitor> => {
    const { headers } = request;
    const basic = readBasic(headers.authorization);
    if (basic) return { kind: 'account', rights: (await logIn(request, basic))?.rights };
    const bearer = readBearer(headers.authorization);
    if (bearer === undefined) return { kind: 'anybody', rights: authenticator.anybody };
    await noteHolder(request, bearer);
    return { kind: 'token', rights: await authenticator.withToken(bearer) };
  };

  const wrong = ({ kind }: Visitor, details: Readonly<Record<string, string>> = {}): Fault =>
    kind === 'token'
      ? challenge('The token has expired, or another registry issued it: log in again', {
          ...details,
          error: 'invalid_token',
        })
      : challenge('The name or the password is wrong: log in again', details);

  return {
    async admit(request, repository, action, mountedFrom) {
      const visitor = await visitorOf(request);
      // A push first checks what exists, so its token must allow both.
      const actions = action === 'push' ? 'pull,push' : action;
      const source = mountedFrom === undefined ? '' : ` repository:${mountedFrom}:pull`;
      const scope = { scope: `repository:${repository}:${actions}${source}` };
      const { rights, kind } = visitor;
      if (!rights) throw wrong(visitor, scope);
      if (rights(repository).includes(action)) return rights;
      const what = `${action} ${repository}`;
      if (kind === 'account') {
        throw new Fault('denied', `This account may not ${what}: log in with another account`, {
          phase: 'credentials',
        });
      }
      throw challenge(
        `Cannot ${what} without a login that has this right. Log in to ${service} (docker login, apptainer registry login) with an account, or as the user 'token' with an access token as the password`,
        kind === 'token' ? { ...scope, error: 'insufficient_scope' } : scope,
      );
    },

    async admitList(request) {
      const scope = { scope: 'registry:catalog:*' };
      const visitor = await visitorOf(request);
      if (!visitor.rights) throw wrong(visitor, scope);
      const bearer = readBearer(request.headers.authorization);
      if (visitor.kind === 'anybody' && authenticator.hasAccounts) {
        // Clients with a login send it only after a challenge. Others get a token without one, which lists what anybody may pull.
        throw challenge(
          'Request a token from the token service, which issues one without a login',
          scope,
        );
      }
      if (bearer === undefined) return visitor.rights;
      const rights = await authenticator.toList(bearer);
      if (rights) return rights;
      throw challenge(
        'This token may not list repositories: request one with the scope of this response',
        {
          ...scope,
          error: 'insufficient_scope',
        },
      );
    },

    async admitPull(request, name) {
      if (pulls === 'open') return;
      if (pulls === 'off') throw noPulls(name);
      const basic = readBasic(request.headers.authorization);
      const bearer = readBearer(request.headers.authorization);
      const details = { scope: `repository:${name}:pull` };
      // A token that is sent as a password is no login: anybody gets one.
      const text = bearer ?? (basic?.name === tokenName ? basic.password : undefined);
      const token = text === undefined ? undefined : await noteHolder(request, text);
      if (basic && !token) {
        const login = await logIn(request, basic);
        if (await login?.mayPull(name)) return;
        if (login) throw outsideLimits();
        throw wrong({ kind: 'account', rights: undefined }, details);
      }
      if (bearer !== undefined && !token)
        throw wrong({ kind: 'token', rights: undefined }, details);
      const hasHolder = token?.account === undefined || authenticator.knows(token.account);
      if (token && allowsPull(token, name) && hasHolder) return;
      throw challenge(
        `This server requires a login for pulls: docker login ${service}, with an account, or as the user 'token' with a platform access token as the password`,
        token ? { ...details, error: 'insufficient_scope' } : details,
      );
    },

    async ping(request) {
      // Without accounts and logins, the credentials that a client has stored do not matter.
      if (!authenticator.hasAccounts && pulls !== 'login') return;
      // Clients send credentials to a token service only where this route names one.
      const visitor = await visitorOf(request);
      if (!visitor.rights) throw wrong(visitor);
      if (visitor.kind === 'anybody') {
        throw challenge('Request a token from the token service, which issues one without a login');
      }
    },
  };
}

function noPulls(name: string): Fault {
  return new Fault(
    'denied',
    `Cannot pull ${name}: ${pullsAreOff}. Request the image from another server, or a frozen one from this server`,
    { phase: 'request', headline: `Cannot pull: ${pullsAreOff}` },
  );
}

function outsideLimits(): Fault {
  return new Fault(
    'denied',
    'This access token is limited to certain repositories, and the image is in none of them: log in with another token',
    { phase: 'credentials' },
  );
}

/** What lists of hosted repositories are made of. */
export interface ListedRepositories extends RepositorySources {
  readonly auth: RegistryAuth;
  readonly authenticator: Pick<Authenticator, 'anybody'>;
  /** Host in the names of hosted images. */
  readonly host: string;
}

/**
 * Returns the rights of a caller to hosted repositories: the same as in the registry. Throws a `Fault`: 401, 429, and 403 for an
 * access token that may not pull.
 */
export async function listRights(
  request: IncomingMessage,
  caller: Caller,
  { auth, authenticator, host }: Pick<ListedRepositories, 'auth' | 'authenticator' | 'host'>,
): Promise<Rights> {
  if (readBasic(request.headers.authorization)) return auth.admitList(request);
  requireScope(caller.rights, 'pull');
  return userRights(caller, authenticator, host);
}

/**
 * Returns the rights of a caller who may pull from a repository. Throws the same `Fault` (404) for a repository without
 * the right and for one that does not exist.
 */
export async function pullRights(
  request: IncomingMessage,
  caller: Caller,
  name: string,
  repositories: ListedRepositories,
): Promise<Rights> {
  const rights = await listRights(request, caller, repositories);
  if (rights(name).includes('pull')) return rights;
  throw unknownRepository(name);
}

/** The response to a caller who may pull from a repository, but not delete. */
export function mayNotDelete(name: string): Fault {
  return new Fault('denied', `Your login may not delete ${name}: log in with another account`, {
    phase: 'credentials',
  });
}
