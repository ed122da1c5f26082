import { isIPv6 } from 'node:net';
import { type Digest, isDigest } from './digest.ts';
import { OciSyntaxError } from './syntax-error.ts';

/**
 * The name of an image: registry, repository, and a tag, a digest or both.
 *
 * Grammar (distribution specification 1.1, Pulling manifests, and the docker reference grammar):
 *
 *     reference  := name [ ":" tag ] [ "@" digest ]
 *     name       := [ registry "/" ] component *( "/" component )
 *     component  := alnum *( ( "." / "_" / "__" / 1*"-" ) alnum )
 *     tag        := word *127( word / "." / "-" )
 *
 * The first component is a registry when it contains a "." or ":" or is "localhost". (Docker also treats a
 * component with a capital letter as a registry. Here that is an error, because in lower case it would look like
 * a repository.)
 */
export interface Reference {
  /** Canonical host, with port if there is one. All hosts of Docker Hub are `docker.io`. */
  readonly registry: string;
  readonly repository: string;
  readonly tag?: string;
  readonly digest?: Digest;
}

const pathComponent = '[a-z0-9]+(?:(?:\\.|_|__|-+)[a-z0-9]+)*';
/** The grammar of a repository, without its maximum length. */
export const repositoryPattern = new RegExp(`^${pathComponent}(?:/${pathComponent})*$`);
const tagPattern = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/;
const hostLabel = '(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)';
const registryPattern = new RegExp(
  `^(?:${hostLabel}(?:\\.${hostLabel})*|\\[(?<ipv6>[0-9a-fA-F:.]+)\\])(?::(?<port>[0-9]{1,5}))?$`,
);
const dockerHosts = new Set(['docker.io', 'index.docker.io', 'registry-1.docker.io']);
/**
 * Characters that a repository may have, and that clients accept in a whole name without its tag. Source:
 * containers/image and older versions of Docker, docker/reference: NameTotalLengthMax.
 */
export const maxNameLength = 255;

/** The first part of the repositories that belong to users: `users/<user>/<repository>`. */
export const usersFolder = 'users';

export function isRepository(text: string): boolean {
  return text.length <= maxNameLength && repositoryPattern.test(text);
}

function isRegistry(text: string): boolean {
  const { groups } = (text.length <= maxNameLength && registryPattern.exec(text)) || {};
  if (!groups) return false;
  const { ipv6, port } = groups;
  // A host that cannot be part of a URL is rejected here, where the message is clear: URLs treat a host that ends
  // in a number as an IPv4 address, and `host.1` or `1.2.3.256` is not a valid one.
  return (
    (ipv6 === undefined || isIPv6(ipv6)) &&
    (port === undefined || isPort(Number(port))) &&
    URL.canParse(`https://${text}/`)
  );
}

function isPort(number: number): boolean {
  return number >= 1 && number <= 65_535;
}

export function isTag(text: string): boolean {
  return tagPattern.test(text);
}

/** Parses an image name. Without tag and digest, the tag is `latest`. Throws {@link OciSyntaxError}. */
export function parseReference(text: string): Reference {
  const refuse = (why: string): never => {
    throw new OciSyntaxError('reference', `Invalid image name '${text.slice(0, 120)}': ${why}`);
  };
  if (text === '') refuse('it is empty');
  if (text.includes('://')) refuse('remove the protocol and write registry/path:tag');
  if (/\s/.test(text)) refuse('it contains a space');
  const at = text.indexOf('@');
  const digest = at < 0 ? undefined : text.slice(at + 1);
  if (digest !== undefined && !isDigest(digest)) {
    refuse(`'${digest.slice(0, 80)}' is not a digest (sha256: and 64 hex digits)`);
  }
  const named = at < 0 ? text : text.slice(0, at);
  const colon = named.lastIndexOf(':');
  const hasTag = colon > named.lastIndexOf('/');
  const tag = hasTag ? named.slice(colon + 1) : undefined;
  if (tag !== undefined && !isTag(tag))
    refuse(`'${tag.slice(0, 60)}' is not a tag (at most 128 letters, digits and . _ -)`);
  const { registry, repository } = splitName(hasTag ? named.slice(0, colon) : named);
  if (!isRegistry(registry))
    refuse(`'${registry.slice(0, 60)}' is not a registry host (write host or host:port)`);
  if (repository.length > maxNameLength) refuse(`it is longer than ${maxNameLength} characters`);
  if (!repositoryPattern.test(repository)) {
    refuse(
      /[A-Z]/.test(repository)
        ? 'repository names must be in lower case'
        : 'the repository must be lower-case letters, digits and single separators . _ -',
    );
  }
  return {
    registry,
    repository,
    ...(tag !== undefined ? { tag } : digest === undefined ? { tag: 'latest' } : {}),
    ...(digest !== undefined ? { digest: digest as Digest } : {}),
  };
}

/** Returns `registry/repository[:tag][@digest]`. */
export function formatReference(reference: Reference): string {
  return `${reference.registry}/${reference.repository}${referenceSuffix(reference)}`;
}

/** Returns `[:tag][@digest]`. */
function referenceSuffix(reference: Reference): string {
  const tag = reference.tag === undefined ? '' : `:${reference.tag}`;
  return reference.digest === undefined ? tag : `${tag}@${reference.digest}`;
}

/** Returns the canonical spelling of a registry: lower case, and `docker.io` for all hosts of Docker Hub. */
export function canonicalRegistry(host: string): string {
  const lower = host.toLowerCase();
  return dockerHosts.has(lower) ? 'docker.io' : lower;
}

function splitName(name: string): { registry: string; repository: string } {
  const slash = name.indexOf('/');
  const first = slash < 0 ? '' : name.slice(0, slash);
  const hasRegistry = /[.:]/.test(first) || first === 'localhost';
  const registry = hasRegistry ? canonicalRegistry(first) : 'docker.io';
  const path = hasRegistry ? name.slice(slash + 1) : name;
  // Only Docker Hub has official images under a name of one component.
  const official = registry === 'docker.io' && path !== '' && !path.includes('/');
  return { registry, repository: official ? `library/${path}` : path };
}

/**
 * Returns the canonical host in the name of a registry or of a part of it: `host[:port][/path]`, with or without
 * a protocol. Returns undefined for names such as `harbor` or `quayio`: in an image name they are paths at Docker
 * Hub, and a password for them must not be sent there.
 */
export function registryHost(text: string): string | undefined {
  const [host = ''] = withoutProtocol(text).split('/');
  if (!/[.:]/.test(host) && host.toLowerCase() !== 'localhost') return undefined;
  try {
    const { registry } = parseReference(`${host.toLowerCase()}/x/x`);
    return isSpelledOut(registry) ? registry : undefined;
  } catch {
    return undefined;
  }
}

/** Returns the name without `https://` and surrounding spaces. */
function withoutProtocol(text: string): string {
  return text.trim().replace(/^https?:\/\//i, '');
}

/**
 * Returns the name of a registry or of a part of it without the protocol, and without the version of the registry API
 * where the name is an address of that API: `https://HOST/v2/`.
 */
export function withoutApi(text: string): string {
  const name = withoutProtocol(text);
  const isAddress = name !== text.trim() || name.endsWith('/');
  return isAddress ? name.replace(/^([^/]+)\/v[12]\/*$/, '$1') : name;
}

/** Returns false for a host that URLs rewrite, such as `1.2`, which becomes 1.0.0.2. */
function isSpelledOut(registry: string): boolean {
  if (registry.startsWith('[')) return true;
  return new URL(`https://${registry}`).hostname === registry.replace(/:\d+$/, '');
}
