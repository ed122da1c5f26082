import type { IncomingMessage, ServerResponse } from 'node:http';
import { Fault } from '../../../foundation/fault.ts';
import type { Action, Rights } from '../../../hosted/accounts/index.ts';
import {
  type Authenticator,
  allowsPull,
  type RegistryTokens,
  type RepositoryAccess,
  tokenName,
} from '../../../hosted/index.ts';
import { mayPullServed, mayUse, requireScope } from '../../../platform/built-in/index.ts';
import { homeRights, type Identity } from '../../../platform/index.ts';
import type { ContainerRequest } from '../../../request/index.ts';
import { readBody } from '../../bodies/read-body.ts';
import { type Identify, readBasic } from '../../callers/identify.ts';
import type { Openness } from '../../gates/access-gate.ts';
import { isFailedLogin, type LoginLimit } from '../../limits/limiter.ts';
import { noteSender, stateOf } from '../../request-state.ts';
import { queryOf } from '../../request-target.ts';
import { sendJson } from '../registry-responses.ts';
import { isCatalogScope, parseScope } from './token-scope.ts';

export interface TokenRouteDeps {
  readonly authenticator: Authenticator;
  readonly tokens: RegistryTokens;
  readonly logIn: LogIn;
  /** Prefix of served names, such as `ct/`. */
  readonly servedPrefix: string;
  /** Who may get a token for served names: everybody where pulls are open, callers that logged in, or nobody. */
  readonly pulls: Openness;
}

/** The token request of a client. */
interface TokenRequest {
  readonly credentials: NamedPassword | 'none' | 'unknown';
  readonly scopes: readonly string[];
}

const lifeMs = 5 * 60 * 1000;
const maxFormBytes = 64 * 1024;

/**
 * Answers a token request: GET with Basic credentials or none, POST with a form. Anybody gets a
 * token. It allows those of the requested actions that its owner may do. A token that is sent as a password is exchanged
 * for one with the same account, at most the same rights, and the same end at the latest.
 * Source: distribution's token authentication and OAuth2 token authentication specifications.
 */
export async function sendToken(
  { authenticator, tokens, logIn, servedPrefix, pulls }: TokenRouteDeps,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { credentials, scopes } =
    request.method === 'POST' ? await readForm(request) : readQuery(request);
  const wanted = scopes.flatMap(parseScope);
  const isServed = ({ name }: RepositoryAccess) => name.startsWith(servedPrefix);
  // A client sends its stored credentials for this host, even wrong or outdated ones and where none are required.
  // Then nothing checks them, and the token does not reveal whether they are right.
  const needsNone = pulls !== 'login' && wanted.length > 0 && wanted.every(isServed);
  const login = needsNone || typeof credentials === 'string' ? undefined : credentials;
  const own = login && (await logIn(request, login));
  if (credentials !== 'none' && !own && !needsNone) {
    throw new Fault('unauthorized', 'The name or the password is wrong: log in again', {
      phase: 'credentials',
    });
  }
  const rights: Rights = own?.rights ?? authenticator.anybody;
  const former = own && login?.name === tokenName ? await tokens.read(login.password) : undefined;
  const servedActions = async ({ name }: RepositoryAccess): Promise<readonly Action[]> => {
    if (pulls !== 'login') return pulls === 'open' ? pullOnly : [];
    if (former) return allowsPull(former, name) ? pullOnly : [];
    return (await own?.mayPull(name)) ? pullOnly : [];
  };
  const granted = wanted.map(async entry => ({
    ...entry,
    actions: isServed(entry) ? await servedActions(entry) : allowedActions(entry, rights),
  }));
  const access = (await Promise.all(granted)).filter(({ actions }) => actions.length > 0);
  const named = own && login && login.name !== tokenName ? login.name : undefined;
  const account = former ? former.account : named;
  const user = former ? former.user : stateOf(request).who?.user;
  const mayList = scopes.some(isCatalogScope) && (!former || former.mayList === true);
  const life = former ? Math.min(lifeMs, former.expiresAt - Date.now()) : lifeMs;
  const token = await tokens.issue({ account, user, access, mayList }, life);
  sendJson(response, 200, {
    token,
    access_token: token,
    expires_in: Math.ceil(life / 1000),
    issued_at: new Date().toISOString(),
  });
}

const pullOnly: readonly Action[] = ['pull'];

function allowedActions({ name, actions }: RepositoryAccess, rights: Rights): Action[] {
  const all = actions as readonly string[];
  return rights(name).filter(action => all.includes(action) || all.includes('*'));
}

function readQuery(request: IncomingMessage): TokenRequest {
  return {
    credentials: readBasic(request.headers.authorization) ?? 'none',
    scopes: queryOf(request)
      .getAll('scope')
      .flatMap(scope => scope.split(' ')),
  };
}

async function readForm(request: IncomingMessage): Promise<TokenRequest> {
  const body = await readBody(request, maxFormBytes);
  if (!body) throw new Fault('too-large', 'The form is too large', { phase: 'request' });
  const form = new URLSearchParams(body.toString('utf8'));
  const scopes = form.getAll('scope').flatMap(scope => scope.split(' '));
  const grant = form.get('grant_type') ?? '';
  // Sluice issues no refresh tokens: this one is from another service that had this name.
  if (grant === 'refresh_token') return { credentials: 'unknown', scopes };
  if (grant !== 'password') {
    throw new Fault(
      'bad-request',
      `The grant type '${grant.slice(0, 40)}' is not supported: use 'password'`,
      { phase: 'credentials' },
    );
  }
  const name = form.get('username') ?? '';
  return {
    credentials: name === '' ? 'none' : { name, password: form.get('password') ?? '' },
    scopes,
  };
}

/** A name and a password, as registry clients send them. */
interface NamedPassword {
  readonly name: string;
  readonly password: string;
}

/** What a login gives. */
interface RegistryLogin {
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

interface LogInDeps {
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

/**
 * Returns the rights of a user to hosted repositories: those of everybody and those to the user's own repositories, as far
 * as the limits of the access token go.
 *
 * @param host host in the names of hosted images
 */
export function userRights(
  user: Pick<Identity, 'home' | 'rights'>,
  { anybody }: Pick<Authenticator, 'anybody'>,
  host: string,
): Rights {
  const limits = user.rights ?? {};
  return name =>
    mayUse(limits, host, name, host)
      ? [...new Set([...anybody(name), ...homeRights(user, `${host}/${name}`)])]
      : [];
}

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
    const own = userRights(identity, authenticator, host);
    if (!rights?.repositories) return { rights: own, mayPull };
    return {
      rights: own,
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
