import type { TokenSource } from '../../buildkit/index.ts';
import { Fault } from '../../foundation/fault.ts';
import { type RegistryTokens, tokenName } from '../../hosted/index.ts';
import { parseReference, type Reference } from '../../oci/naming.ts';
import type { SealedGrant } from '../../platform/index.ts';
import type { CredentialSource, Credentials } from '../../upstream/auth/index.ts';
import { type Access, accessTo, type FetchToken } from '../../upstream/index.ts';

/** The rights that a build has to pull and push images. */
export interface BuildRights {
  /**
   * Returns the access for a builder, which reads and writes a layer cache: credentials for its host, and for this server a
   * token for its repository alone. It gets its base images from this server, by names that need no credentials.
   */
  forBuilder(cache: string | undefined): BuilderAccess;
  /** Returns the access for the service itself. The caller has proved its right to images that are hosted here. */
  access(image: Pick<Access, 'registry' | 'repository'>): Promise<Access>;
  /** What the access token of the caller is limited to; empty for no limit. */
  readonly limits: string;
}

/** Access that a builder receives. */
export interface BuilderAccess {
  /** Credentials for registries whose tokens only the builder itself can get. */
  readonly credentials: CredentialSource;
  readonly tokens: TokenSource;
}

/** Returns the same in the form of the BuildKit client. */
export function loginsOf({ credentials, tokens }: BuilderAccess) {
  return {
    async credentials(host: string) {
      const known = await credentials(host);
      if (!known) return undefined;
      return known.kind === 'password'
        ? { username: known.username, password: known.password }
        : { identityToken: known.token };
    },
    tokens,
  };
}

/** Returns the rights of the caller of a build. Without a grant, these are the rights of anonymous callers. */
export type RightsOf = (grant: SealedGrant | undefined) => BuildRights;

interface BuildRightsDeps {
  readonly credentialsOf: (grant: SealedGrant | undefined) => CredentialSource;
  readonly limitsOf: (grant: SealedGrant | undefined) => string;
  readonly tokens: RegistryTokens;
  readonly fetchToken: FetchToken;
  readonly ownHost: string;
  /** Lifetime of a token for this server (ms). */
  readonly tokenLifeMs: number;
}

export function createBuildRights(deps: BuildRightsDeps): RightsOf {
  const { credentialsOf, limitsOf, tokens, fetchToken, ownHost, tokenLifeMs } = deps;
  return grant => {
    const credentials = credentialsOf(grant);
    return {
      forBuilder(cache) {
        const place = cache === undefined ? undefined : parseReference(cache);
        const ownToken = async (name: string): Promise<Credentials> => {
          const access = [
            { type: 'repository' as const, name, actions: ['pull', 'push'] as const },
          ];
          const password = await tokens.issue({ access }, tokenLifeMs);
          return { kind: 'password', username: tokenName, password };
        };
        const ofHost: CredentialSource = async host => {
          if (!place || place.registry !== host) return undefined;
          const { repository } = place;
          return host === ownHost ? ownToken(repository) : credentials(host, repository);
        };
        const elsewhere = place && place.registry !== ownHost ? [place] : [];
        return { credentials: ofHost, tokens: builderTokens(elsewhere, credentials, fetchToken) };
      },

      access: image => accessInOwnRight(image, ownHost, credentials),

      get limits() {
        return limitsOf(grant);
      },
    };
  };
}

/**
 * Returns the access to an image that is built here. For a hosted image it is the service's own right: the caller has
 * already shown its right to the image.
 */
export async function accessInOwnRight(
  { registry, repository }: Pick<Access, 'registry' | 'repository'>,
  ownHost: string,
  credentials: CredentialSource,
): Promise<Access> {
  return registry === ownHost
    ? { registry, repository, credentials: undefined, isService: true }
    : accessTo({ registry, repository }, credentials);
}

type Repository = Pick<Reference, 'registry' | 'repository'>;

interface Scope {
  readonly repository: string;
  readonly actions: readonly string[];
}

/**
 * Returns tokens for a build that pushes these images. Each token is requested with the credentials for its repository.
 * For other repositories, a token allows at most a pull. Covers the registries that have credentials.
 */
export function builderTokens(
  pushed: readonly Repository[],
  credentials: CredentialSource,
  fetchToken: FetchToken,
): TokenSource {
  const isPushed = (host: string, name: string) =>
    pushed.some(({ registry, repository }) => registry === host && repository === name);

  /**
   * Returns the repository whose credentials apply. BuildKit also mounts blobs from repositories that the build does
   * not name: their credentials are not used.
   */
  const repositoryOf = (host: string, scopes: readonly Scope[]): string => {
    const own = scopes.find(({ repository }) => isPushed(host, repository));
    if (own) return own.repository;
    throw new Fault(
      'denied',
      `The build step requests access at ${host} that this build does not have: name the repository as the one for the push`,
      {
        phase: 'credentials',
      },
    );
  };

  const allowed = (host: string, { repository, actions }: Scope): string => {
    const mayPush = isPushed(host, repository);
    const possible = actions.filter(action => action === 'pull' || (action === 'push' && mayPush));
    return `repository:${repository}:${possible.join(',')}`;
  };

  return {
    async covers(host) {
      for (const { registry, repository } of pushed) {
        if (registry === host && (await credentials(host, repository))) return true;
      }
      return false;
    },

    async fetch({ host, realm, service, scopes: texts }) {
      const scopes = texts.flatMap(parseScope);
      const repository = repositoryOf(host, scopes);
      const { token, expiresAt } = await fetchToken({
        registry: host,
        repository,
        scopes: scopes.map(scope => allowed(host, scope)),
        credentials: await credentials(host, repository),
        challenge: { scheme: 'bearer', parameters: { realm, ...(service ? { service } : {}) } },
      });
      return {
        token,
        lifeSeconds: Math.max(1, Math.floor((expiresAt - performance.now()) / 1000)),
      };
    },
  };
}

/** Source: distribution, Token Scope Documentation. */
function parseScope(text: string): Scope[] {
  const [, repository, actions] = /^repository:(.+):([a-z*,]+)$/.exec(text) ?? [];
  return repository === undefined || actions === undefined
    ? []
    : [{ repository, actions: actions.split(',') }];
}
