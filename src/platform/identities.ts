import { createHash } from 'node:crypto';
import { boundedCache } from '../foundation/bounded-cache.ts';
import { Fault } from '../foundation/fault.ts';
import { type Accounts, type Action, type Rights, rolesOf } from '../hosted/accounts/index.ts';
import { type RegistryTokens, tokenName } from '../hosted/index.ts';
import { usersFolder } from '../oci/naming.ts';
import type { SecretBox } from '../storage/rows/index.ts';
import type { CredentialSource, Credentials } from '../upstream/auth/index.ts';
import { isWithin, parseScope } from './credentials/registry-match.ts';
import type { Selection } from './credentials/selection.ts';
import type { Endpoints } from './endpoint.ts';
import { grantPlace } from './seal-again.ts';
import {
  hasScope,
  limitsIn,
  mayUse,
  mayUseAll,
  outsideRights,
  type TokenRights,
} from './token-rights.ts';
import { type BuildMail, type Grant, type Platform, unknownRun } from './workflow-platform.ts';

/** How a request identifies its caller. Source: container service specification, section 2.1. */
export interface Claim {
  readonly platformEndpoint?: string | undefined;
  readonly platformAccessToken?: string | undefined;
  readonly platformRefreshToken?: string | undefined;
  readonly platformWorkspaceId?: number | undefined;
}

/** A user of a platform, or an account of this server. */
export interface Identity {
  /** Identifies a person uniquely over all platforms. */
  readonly user: string;
  /** Identifies what a caller may see: person and workspace. */
  readonly scope: string;
  /** Name for logs. */
  readonly name: string;
  /** Domain of the e-mail address. */
  readonly org: string | undefined;
  /** `registry/path` that the hosted repositories of the user are below; undefined for an account. */
  readonly home?: string;
  /** The limits of the access token; undefined for none, and for accounts. */
  readonly rights?: TokenRights | undefined;
  readonly grant: SealedGrant;
}

/** The right to act for a caller later, encrypted. It is stored with the request. */
export type SealedGrant = string & { readonly __brand: 'SealedGrant' };

export interface Identities {
  /**
   * Returns the caller of a request; undefined for a request without an access token. Throws a `Fault`: 400 for a
   * platform that is not allowed, 403 for an invalid token.
   */
  identify(claim: Claim): Promise<Identity | undefined>;
  /** True for a token of the platform in this process: nobody can guess it, and checking it needs no call. */
  isForOwnPlatform(claim: Claim): boolean;
  /** Returns the identity of a caller who logged in with the name and password of an account. */
  ofAccount(name: string): Identity;
  /** Checks that a token is still valid. Throws a `Fault` (403). */
  require(grant: SealedGrant): Promise<void>;
  /**
   * Returns `host[:port]` of the workflow platform that knows the runs of a caller; undefined for an account, and for a user of the
   * platform in this process, which keeps no runs.
   */
  runsAt(grant: SealedGrant): string | undefined;
  /** Returns the status of a run at its platform, as the caller may see it. Throws a `Fault`, see {@link Platform}. */
  runStatus(grant: SealedGrant, id: string): Promise<string>;
  /**
   * Returns the credentials that a caller may use for the images they name. Users of a platform have only their own
   * credentials, and with a token for certain repositories only those for them: asked for another repository, the source
   * throws a `Fault` (403). Administrators have those that the operator listed. All other callers have the listed ones that the
   * operator opens to everybody. None of them apply to the repositories that the service itself uses. An account of this
   * server may also use the hosted repositories as far as its own rights go.
   *
   * @param use what the credentials are for. Default: `pull`
   */
  credentialsOf(grant: SealedGrant | undefined, use?: RepositoryUse): CredentialSource;
  /** Returns the same for builds: the repositories of the service are used with the service's own credentials. */
  serviceCredentialsOf(grant: SealedGrant | undefined): CredentialSource;
  /** Returns what the access token of a grant is limited to; empty for no limit. */
  limitsOf(grant: SealedGrant | undefined): string;
  /**
   * Returns the e-mail address of a user who wants to know how a build ended; undefined for other callers, and for a
   * grant that can no longer be read.
   */
  mailOf(grant: SealedGrant | undefined, succeeded: boolean): string | undefined;
  /** True for the repositories that the service uses when a request names none, and for those below them. */
  isOfService(registry: string, repository: string): boolean;
  /** Returns what {@link credentialsOf} finds, and its name; undefined if there are none. */
  find(
    grant: SealedGrant | undefined,
    registry: string,
    repository?: string,
    use?: RepositoryUse,
  ): Promise<NamedCredentials | undefined>;
}

type RepositoryUse = 'pull' | 'push';

interface NamedCredentials {
  readonly name: string;
  /** The owner of the credentials. */
  readonly owner: 'workspace' | 'user' | 'service';
  readonly credentials: Credentials;
}

interface IdentitiesDeps {
  readonly platform: Platform;
  readonly endpoints: Endpoints;
  readonly selection: Selection;
  readonly box: SecretBox;
  /** Credentials that the operator has given the service. */
  readonly service: CredentialSource;
  /** The ones of them that serve callers without a login. */
  readonly anonymous: CredentialSource;
  readonly accounts: Accounts;
  /** The hosted repositories: their host, and the tokens that they accept. */
  readonly hosted: {
    readonly host: string;
    readonly tokens: Pick<RegistryTokens, 'issue'>;
    /** The rights of callers without a login. */
    readonly anybody: Rights;
  };
  /** `registry/path` of the repositories that the service uses when a request names none. */
  readonly serviceRepositories: readonly string[];
  /** Which builds users without a preference get e-mails about; undefined where no e-mails are sent. */
  readonly usualMail?: BuildMail | undefined;
}

interface PlatformGrant extends Grant {
  readonly workspaceId: string | undefined;
  /** The repositories that the token is limited to. They never change. */
  readonly repositories?: readonly string[] | undefined;
  /** Path that the hosted repositories of the user are below. Requests of older servers have none. */
  readonly home?: string;
  /** Which builds end with an e-mail to the user, as it was at the time of the request. */
  readonly mail?: { readonly to: string; readonly about: BuildMail };
}

interface AccountGrant {
  readonly account: string;
}

const ownTokenMs = 10 * 60_000;
const knownOwnTokens = 1000;

type KeptGrant = PlatformGrant | AccountGrant;

export function createIdentities(deps: IdentitiesDeps): Identities {
  const { platform, endpoints, selection, box, service, accounts, hosted, usualMail } = deps;
  // One token for some time: what is known about an image is remembered for its credentials.
  const ownTokens = boundedCache<string, Promise<string>>(knownOwnTokens, {
    ttl: ownTokenMs / 2,
  });
  const own = deps.serviceRepositories.map(parseScope);

  const open = (grant: SealedGrant): KeptGrant => {
    try {
      return JSON.parse(box.open(grant, grantPlace)) as KeptGrant;
    } catch (cause) {
      throw new Fault(
        'unavailable',
        'The access token of this request can no longer be read: make the request again',
        { phase: 'credentials', cause },
      );
    }
  };

  const isOwn = (registry: string, repository: string | undefined) =>
    own.some(scope => isWithin(scope, registry, repository));

  const seal = (grant: KeptGrant): SealedGrant =>
    box.seal(JSON.stringify(grant), grantPlace) as SealedGrant;

  /** Returns the operator's credentials for a caller without a platform identity. */
  const listedFor = (grant: AccountGrant | undefined): CredentialSource => {
    const account = grant && accounts.get(grant.account);
    return account && rolesOf(account).includes('registries') ? service : deps.anonymous;
  };

  /**
   * Returns a token that lets an account use a hosted repository, as long as and as far as the account itself may; without
   * an account, a token for a repository of the user.
   */
  const ownToken = (
    account: string | undefined,
    name: string,
    use: RepositoryUse,
  ): Promise<string> => {
    const key = `${use} ${account ?? ''} ${name}`;
    const known = ownTokens.get(key);
    if (known) return known;
    const actions: RepositoryUse[] = use === 'push' ? ['pull', 'push'] : ['pull'];
    const access = [{ type: 'repository', name, actions }] as const;
    const issued = hosted.tokens.issue({ account, access }, ownTokenMs);
    ownTokens.set(key, issued);
    return issued;
  };

  /** Returns the own right of an account to a hosted repository, unless everybody has it. */
  const ownRight = async (
    { account }: AccountGrant,
    registry: string,
    repository: string | undefined,
    use: RepositoryUse,
  ): Promise<Credentials | undefined> => {
    if (registry !== hosted.host || repository === undefined || !accounts.has(account)) return;
    if (use === 'pull' && hosted.anybody(repository).includes('pull')) return;
    const password = await ownToken(account, repository, use);
    return { kind: 'password', username: tokenName, password };
  };

  /**
   * Returns whether a token may use its user's credentials for a repository, or for a whole registry. Throws a `Fault`
   * (403) for a repository that it may not use.
   */
  const reaches = (
    grant: PlatformGrant,
    registry: string,
    repository: string | undefined,
  ): boolean => {
    if (repository === undefined) return mayUseAll(grant, registry);
    if (mayUse(grant, registry, repository, hosted.host)) return true;
    // The service reads and writes its own repositories for a caller, with its own right.
    if (isOwn(registry, repository)) return false;
    throw outsideRights(registry, repository);
  };

  const homeRight = async (
    { home }: PlatformGrant,
    registry: string,
    repository: string | undefined,
    use: RepositoryUse,
  ): Promise<NamedCredentials | undefined> => {
    if (registry !== hosted.host || home === undefined || repository === undefined) return;
    if (!repository.startsWith(`${home}/`)) return;
    const password = await ownToken(undefined, repository, use);
    const credentials = { kind: 'password', username: tokenName, password } as const;
    return { name: registry, owner: 'user', credentials };
  };

  const find: Identities['find'] = async (sealed, registry, repository, use = 'pull') => {
    const grant = sealed === undefined ? undefined : open(sealed);
    if (grant && !('account' in grant)) {
      if (!reaches(grant, registry, repository)) return undefined;
      const home = await homeRight(grant, registry, repository, use);
      if (home) return home;
      return selection.find(grant, grant.workspaceId, registry, repository);
    }
    const listed = isOwn(registry, repository)
      ? undefined
      : await listedFor(grant)(registry, repository);
    if (listed) return { name: registry, owner: 'service', credentials: listed };
    const own = grant && (await ownRight(grant, registry, repository, use));
    return own && { name: registry, owner: 'user', credentials: own };
  };

  const credentialsOf: Identities['credentialsOf'] =
    (sealed, use) => async (registry, repository) =>
      (await find(sealed, registry, repository, use))?.credentials;

  return {
    find,

    async identify(claim) {
      const { platformAccessToken: accessToken, platformRefreshToken: refreshToken } = claim;
      if (!accessToken) return undefined;
      const { id: endpoint } = endpoints.resolve(claim.platformEndpoint);
      const workspaceId = claim.platformWorkspaceId?.toString();
      const grant = { endpoint, accessToken, refreshToken, workspaceId };
      const { id, email, userName, buildMail, tokenRights: rights } = await platform.user(grant);
      const user = `${endpoint} ${id}`;
      const name = email ?? userName;
      const home = homeOf({ user, name });
      const repositories = rights?.repositories;
      const about = usualMail && (buildMail ?? usualMail);
      const mail = email && about && about !== 'never' ? { mail: { to: email, about } } : {};
      return {
        user,
        name,
        home: `${hosted.host}/${home}`,
        // What one token may see, another one of the same user may not.
        scope: `${user} ${workspaceId ?? ''}${limitsIn({ repositories })}`,
        org: email?.split('@')[1]?.toLowerCase(),
        rights,
        grant: seal({ ...grant, repositories, home, ...mail }),
      };
    },

    isForOwnPlatform: claim => endpoints.resolve(claim.platformEndpoint).isOwn,

    ofAccount(name) {
      const user = `account ${name}`;
      return { user, name, scope: user, org: undefined, grant: seal({ account: name }) };
    },

    async require(sealed) {
      const grant = open(sealed);
      if (!('account' in grant)) await platform.user(grant);
      else if (!accounts.has(grant.account)) {
        throw new Fault(
          'denied',
          'The account that made this container request no longer exists: make the request again with another one',
          { phase: 'credentials' },
        );
      }
    },

    runsAt(sealed) {
      const grant = open(sealed);
      if ('account' in grant) return undefined;
      const { isOwn: isHere, host } = endpoints.resolve(grant.endpoint);
      return isHere ? undefined : host;
    },

    async runStatus(sealed, id) {
      const grant = open(sealed);
      if ('account' in grant) throw unknownRun(id);
      return platform.run(grant, id, grant.workspaceId);
    },

    credentialsOf,
    isOfService: isOwn,

    limitsOf(sealed) {
      const grant = sealed === undefined ? undefined : open(sealed);
      return grant && !('account' in grant) ? limitsIn(grant) : '';
    },

    mailOf(sealed, succeeded) {
      if (usualMail === undefined || sealed === undefined) return undefined;
      try {
        const grant = open(sealed);
        const mail = 'account' in grant ? undefined : grant.mail;
        return mail && (mail.about === 'always' || !succeeded) ? mail.to : undefined;
      } catch {
        return undefined;
      }
    },

    serviceCredentialsOf(grant) {
      const theirs = credentialsOf(grant);
      return async (registry, repository) =>
        isOwn(registry, repository) ? service(registry, repository) : theirs(registry, repository);
    },
  };
}

/** The person that a hosted repository belongs to. */
interface Owner {
  /** Identifies a person uniquely over all platforms. */
  readonly user: string;
  /** The e-mail address, or the name of the user. */
  readonly name: string;
}

const longestWord = 40;

/**
 * Returns the path that the hosted repositories of a user are below, such as `users/ada-0f3a...`. Its readable part
 * is not unique, so the rest is computed from the platform, the number and the name of the user.
 */
export function homeOf(owner: Owner): string {
  const [local = ''] = owner.name.toLowerCase().split('@', 1);
  const word = local
    .replace(/[^a-z0-9]/g, ' ')
    .trim()
    .split(/ +/)
    .join('-')
    .slice(0, longestWord);
  const text = word.replace(/-$/, '');
  return `${usersFolder}/${text === '' ? 'user' : text}-${markOf(owner)}`;
}

/**
 * Returns what a user may do with a hosted repository: pull and delete their own images. They are pushed by builds only,
 * which have limits.
 *
 * @param name `registry/path`
 */
export function homeRights(
  { home, rights }: { readonly home?: string; readonly rights?: TokenRights | undefined },
  name: string,
): readonly Action[] {
  if (home === undefined || !name.startsWith(`${home}/`)) return [];
  return hasScope(rights, 'build') ? ['pull', 'delete'] : ['pull'];
}

function markOf({ user, name }: Owner): string {
  // A number may get another owner after a user was removed, a name on another platform.
  const identity = JSON.stringify([user, name]);
  return createHash('sha256').update(identity).digest('hex').slice(0, 16);
}
