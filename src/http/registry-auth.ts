import type { IncomingMessage } from 'node:http';
import { Fault } from '../fault.ts';
import type { Keeper } from '../hosted/keeper.ts';
import type { Action, Rights } from '../hosted/rights.ts';
import { readBasic } from './basic-auth.ts';

/** Who sends a request to a hosted repository. */
export interface Visitor {
  readonly rights: Rights;
  readonly kind: 'anybody' | 'account' | 'token';
}

/** Lets in who has the right, and tells the others how to get it. */
export interface RegistryAuth {
  /** Throws a {@link Fault} (401) for credentials that are wrong. */
  visitor(request: IncomingMessage): Promise<Visitor>;
  /**
   * Throws a {@link Fault} unless the visitor has the right: 401 with a challenge where a login or
   * another token may help, else 403. Whether the repository exists makes no difference.
   */
  require(visitor: Visitor, repository: string, action: Action): void;
  /** The answer to who asks for `/v2/`: returns when it is 200, throws the challenge otherwise. */
  ping(request: IncomingMessage): Promise<void>;
}

/**
 * @param realm URL of the token service
 * @param service its name for itself
 * Source: distribution's token authentication specification.
 */
export function createRegistryAuth(keeper: Keeper, realm: string, service: string): RegistryAuth {
  const challenge = (message: string, details = ''): Fault =>
    new Fault('unauthorized', message, {
      phase: 'credentials',
      headers: { 'www-authenticate': `Bearer realm="${realm}",service="${service}"${details}` },
    });

  const visitor = async (request: IncomingMessage): Promise<Visitor> => {
    const { authorization } = request.headers;
    const basic = readBasic(authorization);
    if (basic) {
      const rights = keeper.withPassword(basic.name, basic.password);
      if (rights) return { rights, kind: 'account' };
      throw challenge('The name or the password is wrong: log in again');
    }
    const bearer = /^bearer\s+(\S+)\s*$/i.exec(authorization ?? '')?.[1];
    if (bearer !== undefined) {
      const rights = await keeper.withToken(bearer);
      if (rights) return { rights, kind: 'token' };
      throw challenge('The token has ended or is not of this registry', ',error="invalid_token"');
    }
    return { rights: keeper.anybody, kind: 'anybody' };
  };

  return {
    visitor,

    require({ rights, kind }, repository, action) {
      if (rights(repository).includes(action)) return;
      const what = `${action} ${repository}`;
      if (kind === 'account') {
        throw new Fault('denied', `This account may not ${what}`, { phase: 'credentials' });
      }
      // A push begins with a look at what is there, so its token has to do for both.
      const actions = action === 'push' ? 'pull,push' : action;
      throw challenge(
        `To ${what} a login is needed, of an account that may do it: docker login ${service}`,
        `,scope="repository:${repository}:${actions}"${kind === 'token' ? ',error="insufficient_scope"' : ''}`,
      );
    },

    async ping(request) {
      // Without accounts there is nothing to log in to, whatever credentials a client has stored.
      if (!keeper.hasAccounts) return;
      // Clients send credentials to a token service only where this route names one.
      const { kind } = await visitor(request);
      if (kind === 'anybody') {
        throw challenge('Ask the token service for a token, which it gives to anybody');
      }
    },
  };
}
