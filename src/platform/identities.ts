import { Fault } from '../fault.ts';
import type { SecretBox } from '../store/secret-box.ts';
import type { CredentialSource, Credentials } from '../upstream/credentials.ts';
import type { Endpoints } from './endpoint.ts';
import type { Grant, Platform } from './platform.ts';
import { isWithin, parseScope } from './registry-match.ts';
import type { Selection } from './selection.ts';

/** What a request says of who sends it. Source: container service specification, section 2.1. */
export interface Claim {
  readonly platformEndpoint?: string | undefined;
  readonly platformAccessToken?: string | undefined;
  readonly platformRefreshToken?: string | undefined;
  readonly platformWorkspaceId?: number | undefined;
}

/** Somebody whom a platform knows. */
export interface Identity {
  /** Tells people apart, over all platforms. */
  readonly user: string;
  /** Tells apart what may be seen: person and workspace. */
  readonly scope: string;
  /** Domain of the e-mail address. */
  readonly org: string | undefined;
  readonly grant: SealedGrant;
}

/** What it takes to act for somebody later, encrypted: it is kept with what was asked for. */
export type SealedGrant = string & { readonly __brand: 'SealedGrant' };

export interface Identities {
  /**
   * Who sends a request; undefined for one without an access token. Throws a `Fault`: 400 for a platform
   * that may not be asked, 403 for a token that is not good.
   */
  identify(claim: Claim): Promise<Identity | undefined>;
  /** Makes sure that a token is still good. Throws a `Fault` (403). */
  require(grant: SealedGrant): Promise<void>;
  /**
   * What somebody has for the images they name: at the platform their own credentials only, without a
   * grant those that the operator has listed, but for the repositories that the service itself uses.
   */
  credentialsOf(grant: SealedGrant | undefined): CredentialSource;
  /** The same for what is built for them: the repositories of the service are used in its own right. */
  serviceCredentialsOf(grant: SealedGrant | undefined): CredentialSource;
  /** True for what the service uses when a request names nothing else, and what is below it. */
  isOfService(registry: string, repository: string): boolean;
  /** What {@link credentialsOf} finds, and what they are called; undefined where there are none. */
  find(
    grant: SealedGrant | undefined,
    registry: string,
    repository: string,
  ): Promise<NamedCredentials | undefined>;
}

export interface NamedCredentials {
  readonly name: string;
  /** Whose they are. */
  readonly owner: 'workspace' | 'user' | 'service';
  readonly credentials: Credentials;
}

export interface IdentitiesDeps {
  readonly platform: Platform;
  readonly endpoints: Endpoints;
  readonly selection: Selection;
  readonly box: SecretBox;
  /** Credentials that the operator has given the service. */
  readonly service: CredentialSource;
  /** `registry/path` of what the service uses when a request names nothing else. */
  readonly serviceRepositories: readonly string[];
}

interface KeptGrant extends Grant {
  readonly workspaceId: string | undefined;
}

const place = 'grant';

export function createIdentities(deps: IdentitiesDeps): Identities {
  const { platform, endpoints, selection, box, service } = deps;
  const own = deps.serviceRepositories.map(parseScope);

  const open = (grant: SealedGrant): KeptGrant => {
    try {
      return JSON.parse(box.open(grant, place)) as KeptGrant;
    } catch (cause) {
      throw new Fault(
        'unavailable',
        'The access token of this request cannot be read any more: make the request again',
        { phase: 'credentials', cause },
      );
    }
  };

  const isOwn = (registry: string, repository: string | undefined) =>
    own.some(scope => isWithin(scope, registry, repository));

  const credentialsOf = (sealed: SealedGrant | undefined): CredentialSource => {
    if (sealed === undefined) {
      return async (registry, repository) =>
        isOwn(registry, repository) ? undefined : service(registry, repository);
    }
    const grant = open(sealed);
    return selection.credentialsOf(grant, grant.workspaceId);
  };

  const ofService = async (registry: string, repository: string) => {
    const credentials = await service(registry, repository);
    return credentials && { name: registry, owner: 'service' as const, credentials };
  };

  return {
    async find(sealed, registry, repository) {
      if (sealed === undefined) {
        return isOwn(registry, repository) ? undefined : ofService(registry, repository);
      }
      const grant = open(sealed);
      return selection.find(grant, grant.workspaceId, registry, repository);
    },

    async identify(claim) {
      const { platformAccessToken: accessToken, platformRefreshToken: refreshToken } = claim;
      if (!accessToken) return undefined;
      const { id: endpoint } = endpoints.resolve(claim.platformEndpoint);
      const workspaceId = claim.platformWorkspaceId?.toString();
      const grant: KeptGrant = { endpoint, accessToken, refreshToken, workspaceId };
      const { id, email } = await platform.user(grant);
      const user = `${endpoint} ${id}`;
      return {
        user,
        scope: `${user} ${workspaceId ?? ''}`,
        org: email?.split('@')[1]?.toLowerCase(),
        grant: box.seal(JSON.stringify(grant), place) as SealedGrant,
      };
    },

    async require(grant) {
      await platform.user(open(grant));
    },

    credentialsOf,
    isOfService: isOwn,

    serviceCredentialsOf(grant) {
      const theirs = credentialsOf(grant);
      return async (registry, repository) =>
        isOwn(registry, repository) ? service(registry, repository) : theirs(registry, repository);
    },
  };
}
