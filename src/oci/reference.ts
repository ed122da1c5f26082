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
 * The first component is a registry when it has a "." or ":" in it or is "localhost". (Docker takes
 * one with a capital letter for a registry too; here it is a mistake, as it could not be told apart
 * from a repository once it is in lower case.)
 */
export interface Reference {
  /** Canonical host with port, if any: docker.io has one spelling here. */
  readonly registry: string;
  readonly repository: string;
  readonly tag?: string;
  readonly digest?: Digest;
}

const component = '[a-z0-9]+(?:(?:\\.|_|__|-+)[a-z0-9]+)*';
const repositoryPattern = new RegExp(`^${component}(?:/${component})*$`);
const tagPattern = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/;
const label = '(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)';
const registryPattern = new RegExp(
  `^(?:${label}(?:\\.${label})*|\\[(?<ipv6>[0-9a-fA-F:.]+)\\])(?::(?<port>[0-9]{1,5}))?$`,
);
const dockerHosts = new Set(['docker.io', 'index.docker.io', 'registry-1.docker.io']);
const maxNameLength = 255;

export function isRepository(text: string): boolean {
  return text.length <= maxNameLength && repositoryPattern.test(text);
}

function isRegistry(text: string): boolean {
  const { groups } = (text.length <= maxNameLength && registryPattern.exec(text)) || {};
  if (!groups) return false;
  const { ipv6, port } = groups;
  // What no URL can be made of is refused here, where there is a sentence for it: a host that ends in
  // a number is an IPv4 address to URLs, and `host.1` or `1.2.3.256` is a wrong one.
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

/** Returns the parsed name, tag `latest` when it has neither tag nor digest; throws {@link OciSyntaxError}. */
export function parseReference(text: string): Reference {
  const refuse = (why: string): never => {
    throw new OciSyntaxError('reference', `Invalid image name '${text.slice(0, 120)}': ${why}`);
  };
  if (text === '') refuse('it is empty');
  if (text.includes('://')) refuse('leave out the protocol, write registry/path:tag');
  if (/\s/.test(text)) refuse('it has a space in it');
  const at = text.indexOf('@');
  const digest = at < 0 ? undefined : text.slice(at + 1);
  if (digest !== undefined && !isDigest(digest)) {
    refuse(`'${digest.slice(0, 80)}' is not a digest (sha256: and 64 hex digits)`);
  }
  const named = at < 0 ? text : text.slice(0, at);
  const colon = named.lastIndexOf(':');
  const hasTag = colon > named.lastIndexOf('/');
  const tag = hasTag ? named.slice(colon + 1) : undefined;
  if (tag !== undefined && !isTag(tag)) refuse(`'${tag.slice(0, 60)}' is not a tag`);
  const { registry, repository } = splitName(hasTag ? named.slice(0, colon) : named);
  if (!isRegistry(registry)) refuse(`'${registry.slice(0, 60)}' is not a registry host`);
  if (repository.length > maxNameLength) refuse(`it is longer than ${maxNameLength} characters`);
  if (!repositoryPattern.test(repository)) {
    refuse(
      /[A-Z]/.test(repository)
        ? 'repository names are lower case'
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

/** `registry/repository[:tag][@digest]`. */
export function formatReference(reference: Reference): string {
  return `${reference.registry}/${reference.repository}${referenceSuffix(reference)}`;
}

/** `[:tag][@digest]`. */
function referenceSuffix(reference: Reference): string {
  const tag = reference.tag === undefined ? '' : `:${reference.tag}`;
  return reference.digest === undefined ? tag : `${tag}@${reference.digest}`;
}

/** One spelling for each registry: lower case, and docker.io for all its hosts. */
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
