import type { TokenSource } from '../../buildkit/index.ts';
import { tokenName } from '../../hosted/keeper.ts';
import type { RegistryTokens } from '../../hosted/registry-tokens.ts';
import { parseReference, type Reference } from '../../oci/reference.ts';
import type { SealedGrant } from '../../platform/identities.ts';
import { type Access, accessTo } from '../../upstream/access.ts';
import type { CredentialSource, Credentials } from '../../upstream/auth/credentials.ts';
import type { FetchToken } from '../../upstream/auth/fetch-token.ts';
import { builderTokens } from '../builder/builder-tokens.ts';

/** The rights with which the images of a build are pulled and pushed. */
export interface BuildRights {
  /** For a builder: for the hosts of these images, and for the own host a token for them alone. */
  forBuilder(images: BuilderImages): BuilderAccess;
  /** Returns the access for the service itself. The caller has proved its right to images that are hosted here. */
  access(image: Pick<Access, 'registry' | 'repository'>): Promise<Access>;
}

/** What a builder is given. */
export interface BuilderAccess {
  /** For registries that have tokens only where the builder gets them itself. */
  readonly credentials: CredentialSource;
  readonly tokens: TokenSource;
}

/** Names of the images that a builder has to do with. */
export interface BuilderImages {
  readonly pulled: readonly string[];
  readonly pushed: readonly string[];
}

/** Returns the rights of the caller of a build; without a grant, the rights that everyone has. */
export type RightsOf = (grant: SealedGrant | undefined) => BuildRights;

export interface BuildRightsDeps {
  readonly credentialsOf: (grant: SealedGrant | undefined) => CredentialSource;
  readonly tokens: RegistryTokens;
  readonly fetchToken: FetchToken;
  readonly ownHost: string;
  /** How long a token for the own host is good, ms. */
  readonly tokenLifeMs: number;
}

export function createBuildRights(deps: BuildRightsDeps): RightsOf {
  const { credentialsOf, tokens, fetchToken, ownHost, tokenLifeMs } = deps;
  return grant => {
    const credentials = credentialsOf(grant);
    return {
      forBuilder(images) {
        const pulled = images.pulled.map(parseReference);
        const pushed = images.pushed.map(parseReference);
        const ownToken = async (): Promise<Credentials> => {
          const access = [
            ...accessOf(pushed, ownHost, ['pull', 'push']),
            ...accessOf(pulled, ownHost, ['pull']),
          ];
          const password = await tokens.issue({ access }, tokenLifeMs);
          return { kind: 'password', username: tokenName, password };
        };
        const ofHost: CredentialSource = async host => {
          // The builder asks by host alone for a password: the first of its images there that has one decides.
          for (const { registry, repository } of [...pushed, ...pulled]) {
            if (registry !== host) continue;
            const found = await (host === ownHost ? ownToken() : credentials(host, repository));
            if (found) return found;
          }
          return undefined;
        };
        const isElsewhere = ({ registry }: Reference) => registry !== ownHost;
        const elsewhere = {
          pulled: pulled.filter(isElsewhere),
          pushed: pushed.filter(isElsewhere),
        };
        return {
          credentials: ofHost,
          tokens: builderTokens(elsewhere, credentials, fetchToken),
        };
      },

      access: image => accessInOwnRight(image, ownHost, credentials),
    };
  };
}

/**
 * The access to an image that is built here: in the service's own right where it is hosted, as who asked for
 * the build has shown that it may have it.
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

function accessOf(
  images: readonly Reference[],
  ownHost: string,
  actions: readonly ('pull' | 'push')[],
) {
  return images
    .filter(({ registry }) => registry === ownHost)
    .map(({ repository }) => ({ type: 'repository' as const, name: repository, actions }));
}
