import type { TokenSource } from '../../buildkit/index.ts';
import { Fault } from '../../foundation/fault.ts';
import type { Reference } from '../../oci/naming.ts';
import type { CredentialSource } from '../../upstream/auth/index.ts';
import type { FetchToken } from '../../upstream/index.ts';

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
