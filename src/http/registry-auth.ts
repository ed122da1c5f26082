import type { IncomingMessage } from 'node:http';
import { Fault } from '../fault.ts';
import { type Keeper, tokenName } from '../hosted/keeper.ts';
import type { Action, Rights } from '../hosted/rights.ts';
import { readBasic } from './basic-auth.ts';
import type { LoginLimit } from './login-limit.ts';

/** Lets in who has the right, and tells the others how to get it. */
export interface RegistryAuth {
  /**
   * The rights of who sends a request that needs one of them. Throws a {@link Fault} for who has it
   * not: 401 with a challenge where a login or another token may help, else 403, and 429 for a login
   * where too many have failed. Whether the
   * repository exists makes no difference. A challenge also names the repository that a blob is to be
   * mounted from; without a right to it the blob is uploaded.
   */
  admit(
    request: IncomingMessage,
    repository: string,
    action: Action,
    mountedFrom?: string,
  ): Promise<Rights>;
  /** The answer to who asks for `/v2/`: returns when it is 200, throws the challenge otherwise. */
  ping(request: IncomingMessage): Promise<void>;
}

/** Who sends a request: rights are undefined where the credentials are wrong. */
interface Visitor {
  readonly kind: 'anybody' | 'account' | 'token';
  readonly rights: Rights | undefined;
}

/**
 * @param realm URL of the token service
 * @param service its name for itself
 * Source: distribution's token authentication specification.
 */
export function createRegistryAuth(
  keeper: Keeper,
  realm: string,
  service: string,
  logins: LoginLimit,
): RegistryAuth {
  const challenge = (message: string, details: Readonly<Record<string, string>> = {}): Fault => {
    const parameters = Object.entries({ realm, service, ...details });
    const text = parameters.map(([name, value]) => `${name}="${value}"`).join(',');
    return new Fault('unauthorized', message, {
      phase: 'credentials',
      headers: { 'www-authenticate': `Bearer ${text}` },
    });
  };

  const visitorOf = async (request: IncomingMessage): Promise<Visitor> => {
    const { headers } = request;
    const basic = readBasic(headers.authorization);
    if (basic) return { kind: 'account', rights: await logIn(keeper, logins, request, basic) };
    const bearer = /^bearer\s+(\S+)\s*$/i.exec(headers.authorization ?? '')?.[1];
    return bearer === undefined
      ? { kind: 'anybody', rights: keeper.anybody }
      : { kind: 'token', rights: await keeper.withToken(bearer) };
  };

  const wrong = ({ kind }: Visitor, details: Readonly<Record<string, string>> = {}): Fault =>
    kind === 'token'
      ? challenge('The token has ended, or is not of this registry', {
          ...details,
          error: 'invalid_token',
        })
      : challenge('The name or the password is wrong: log in again', details);

  return {
    async admit(request, repository, action, mountedFrom) {
      const visitor = await visitorOf(request);
      // A push begins with a look at what is there, so its token has to do for both.
      const actions = action === 'push' ? 'pull,push' : action;
      const source = mountedFrom === undefined ? '' : ` repository:${mountedFrom}:pull`;
      const scope = { scope: `repository:${repository}:${actions}${source}` };
      const { rights, kind } = visitor;
      if (!rights) throw wrong(visitor, scope);
      if (rights(repository).includes(action)) return rights;
      const what = `${action} ${repository}`;
      if (kind === 'account') {
        throw new Fault('denied', `This account may not ${what}`, { phase: 'credentials' });
      }
      throw challenge(
        `To ${what} a login is needed, of an account that may do it: docker login ${service}`,
        kind === 'token' ? { ...scope, error: 'insufficient_scope' } : scope,
      );
    },

    async ping(request) {
      // Without accounts there is nothing to log in to, whatever credentials a client has stored.
      if (!keeper.hasAccounts) return;
      // Clients send credentials to a token service only where this route names one.
      const visitor = await visitorOf(request);
      if (!visitor.rights) throw wrong(visitor);
      if (visitor.kind === 'anybody') {
        throw challenge('Ask the token service for a token, which it gives to anybody');
      }
    },
  };
}

/**
 * The rights behind a name and password, undefined when they are wrong. Throws a {@link Fault} (429) where
 * too many have been wrong.
 */
export async function logIn(
  keeper: Keeper,
  logins: LoginLimit,
  request: IncomingMessage,
  { name, password }: { readonly name: string; readonly password: string },
): Promise<Rights | undefined> {
  // A bearer token cannot be guessed, and its end is how it fails: builders go on while others guess.
  const isCounted = name !== tokenName;
  if (isCounted) logins.check(request);
  const rights = await keeper.withPassword(name, password);
  if (!rights && isCounted) logins.fail(request);
  return rights;
}
