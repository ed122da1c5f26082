import type { TokenSource } from '../../buildkit/index.ts';
import { Fault } from '../../foundation/fault.ts';
import type { Reference } from '../../oci/reference.ts';
import type { CredentialSource } from '../../upstream/auth/credentials.ts';
import type { FetchToken } from '../../upstream/auth/fetch-token.ts';

type Repository = Pick<Reference, 'registry' | 'repository'>;

interface Scope {
  readonly repository: string;
  readonly actions: readonly string[];
}

/**
 * Returns tokens for a build that pulls and pushes these images. Each token is requested with the credentials for its
 * repository. For other repositories, a token allows at most a pull. Covers the registries that have credentials.
 */
export function builderTokens(
  images: { readonly pulled: readonly Repository[]; readonly pushed: readonly Repository[] },
  credentials: CredentialSource,
  fetchToken: FetchToken,
): TokenSource {
  const all = [...images.pushed, ...images.pulled];
  const isAmong = (list: readonly Repository[], host: string, name: string) =>
    list.some(({ registry, repository }) => registry === host && repository === name);

  /**
   * Returns the repository whose credentials apply. BuildKit also mounts blobs from repositories that the build does
   * not name: their credentials are not used.
   */
  const repositoryOf = (host: string, scopes: readonly Scope[]): string => {
    const own = scopes.filter(({ repository }) => isAmong(all, host, repository));
    const pushed = own.find(({ repository }) => isAmong(images.pushed, host, repository));
    const { repository } = pushed ?? own[0] ?? {};
    if (repository !== undefined) return repository;
    throw new Fault(
      'denied',
      `The build step requests access at ${host} that this build does not have: name the image in the Dockerfile, as a named context or as the repository for the push`,
      {
        phase: 'credentials',
      },
    );
  };

  const allowed = (host: string, { repository, actions }: Scope): string => {
    const mayPush = isAmong(images.pushed, host, repository);
    const possible = actions.filter(action => action === 'pull' || (action === 'push' && mayPush));
    return `repository:${repository}:${possible.join(',')}`;
  };

  return {
    async covers(host) {
      for (const { registry, repository } of all) {
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
