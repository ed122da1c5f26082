import { createHash, createHmac, hkdfSync } from 'node:crypto';
import type { RecipeOrigin } from './plan/build-plan.ts';

/** Kind of caller. Builds of anonymous callers run only on builders that cannot connect to closed addresses. */
export type CallerKind = 'known' | 'anonymous';

/**
 * The builds that share the state of a builder: its layers, its cache and its mounts. All their callers may see
 * everything in it, so tokens of one user with different limits have different domains. BuildKit keys its cache by less
 * than what decides a result, so no other build may use it.
 */
export interface TrustDomain {
  /** Equal names mean the same domain. */
  readonly name: string;
  readonly callerKind: CallerKind;
  /** True for the domain of one build, whose state is removed when the build has ended. */
  readonly isAlone: boolean;
}

/** The domain of all callers without a login. */
export const anonymousDomain: TrustDomain = {
  name: 'strangers',
  callerKind: 'anonymous',
  isAlone: false,
};

/** The part of a build that decides its domain. */
export interface DomainMember {
  readonly id: string;
  /** The caller, in the queue of builds. */
  readonly owner: string;
  /** False for a caller without a login. */
  readonly isTrusted: boolean;
  /** What the access token of the caller is limited to: it may not see all that its user may. Empty for no limit. */
  readonly limits?: string;
}

/** Returns the domain of all builds of a caller, apart from those that must be alone. */
export function domainOfCaller({
  owner,
  isTrusted,
  limits = '',
}: Omit<DomainMember, 'id'>): TrustDomain {
  if (!isTrusted) return anonymousDomain;
  return { name: `user ${owner}${limits}`, callerKind: 'known', isAlone: false };
}

/** Returns the domain of a build on a builder. */
export function domainOf(build: DomainMember, recipe: Pick<RecipeOrigin, 'options'>): TrustDomain {
  const domain = domainOfCaller(build);
  return mustBeAlone(recipe) ? { ...domain, name: `build ${build.id}`, isAlone: true } : domain;
}

/** Returns the domain as 32 hexadecimal digits, for names of files and tags. */
export function domainLabel({ name }: Pick<TrustDomain, 'name'>): string {
  return createHash('sha256').update(name).digest('hex').slice(0, 32);
}

/**
 * Returns the label of a name for builders: 32 hexadecimal digits that nobody can compute without the key of the service. The
 * image of a frontend may ask a builder for any host, mount and cache, so their names must not be known to other callers.
 */
export type LabelOf = (name: string) => string;

/** @param key the key of the service, from which another one is derived (RFC 5869) */
export function createLabelOf(key: Uint8Array): LabelOf {
  const own = Buffer.from(hkdfSync('sha256', key, '', 'sluice labels for builders', 32));
  return name => createHmac('sha256', own).update(name).digest('hex').slice(0, 32);
}

// With the case folding of Go's strings.EqualFold: a long s is an s.
const proxyArgument = /^(?:https?|ftp|no|all)_proxy$/iu;

/**
 * Returns whether something decides the results of the build that is not in the keys of BuildKit's cache: secrets, SSH
 * keys, or the proxy of its steps. Such results must not reach another build, not even one of the same caller: images
 * are shared between callers by their recipe. Source: BuildKit, `solver/llbsolver/ops/exec.go` (CacheMap) and
 * `frontend/dockerfile/dockerfile2llb/convert.go` (proxyEnvFromBuildArgs).
 */
export function mustBeAlone({ options = {} }: Pick<RecipeOrigin, 'options'>): boolean {
  const { secretIds, sshIds, args = {} } = options;
  const hasSecrets = secretIds !== undefined || sshIds !== undefined;
  return hasSecrets || Object.keys(args).some(name => proxyArgument.test(name));
}
