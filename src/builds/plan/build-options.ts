import { readSshKey, SshKeyError } from '../../buildkit/index.ts';
import { Fault } from '../../foundation/fault.ts';
import {
  formatPlatform,
  formatReference,
  type Platform,
  parsePlatform,
  parseReference,
} from '../../oci/naming.ts';
import { contextName } from '../recipe/dockerfile/base-images.ts';
import { inField, refuse, shown } from '../recipe/text/text-field.ts';

/** Options for building a recipe, as a request specifies them. */
export interface SubmittedOptions extends SubmittedSecrets {
  /** Values by the names of build arguments. */
  readonly buildArgs?: Readonly<Record<string, string>> | undefined;
  /** The stage of a Dockerfile to build. */
  readonly buildTarget?: string | undefined;
  readonly labels?: Readonly<Record<string, string>> | undefined;
  readonly annotations?: Readonly<Record<string, string>> | undefined;
  /** Date in the config of the image. */
  readonly created?: string | undefined;
  readonly noCache?: boolean | undefined;
}

/** The options that are stored with a plan: without any secret. */
export interface BuildOptions extends SecretIds {
  /** Build arguments of a Dockerfile. */
  readonly args?: Readonly<Record<string, string>>;
  /** The stage to build. */
  readonly target?: string;
  readonly labels?: Readonly<Record<string, string>>;
  /** Annotations of the manifest. */
  readonly annotations?: Readonly<Record<string, string>>;
  /** Date in the config of the image, ISO 8601. */
  readonly created?: string;
  /** Runs all steps, even for an existing image. */
  readonly noCache?: true;
}

/** The request that the options belong to. */
interface OptionsSubject {
  /** True if the caller sends a Dockerfile: some options apply only to its stages. */
  readonly isDockerfile: boolean;
  readonly isSif: boolean;
  /** True if the request names a repository. */
  readonly hasRepository: boolean;
}

// They control the builder itself: which frontend reads the file, and which caches are shared.
const reservedArg = /^(?:BUILDKIT_|SOURCE_DATE_EPOCH$)/;
const optionKeyPattern = /^[A-Za-z0-9][A-Za-z0-9._/-]{0,254}$/;
const maxOptionText = 256 * 1024;

/** Checks the options of a build. Throws a `Fault` (400) that names the field. */
export function readBuildOptions(
  submitted: SubmittedOptions,
  subject: OptionsSubject,
): BuildOptions {
  const { buildTarget: target, labels = {}, annotations = {}, created } = submitted;
  const { isDockerfile, isSif } = subject;
  const args = isDockerfile ? (submitted.buildArgs ?? {}) : {};
  const reserved = Object.keys(args).find(name => reservedArg.test(name));
  if (reserved !== undefined) refuse(`'buildArgs.${reserved}': only this server can set it`);
  if (target !== undefined && !isDockerfile) {
    refuse("'buildTarget' requires a Dockerfile in 'containerFile'");
  }
  checkKeys('labels', labels);
  checkKeys('annotations', annotations);
  if (isSif && Object.keys(annotations).length > 0) {
    refuse("'annotations' are for images in the docker format: use 'labels' with 'format: sif'");
  }
  return {
    ...(Object.keys(args).length > 0 ? { args } : {}),
    ...(target === undefined ? {} : { target }),
    ...(Object.keys(labels).length > 0 ? { labels } : {}),
    ...(Object.keys(annotations).length > 0 ? { annotations } : {}),
    ...(created === undefined ? {} : { created: dateOf(created) }),
    ...(submitted.noCache ? { noCache: true } : {}),
    ...readSecretIds(submitted, subject),
  };
}

/** Returns the options that decide the content of the image, by their names in the key of a build. */
export function optionsInKey(options: BuildOptions): Record<string, string> {
  const { target, labels, annotations, created, secretIds, sshIds } = options;
  return {
    ...prefixed('label:', labels),
    ...prefixed('annotation:', annotations),
    ...(target === undefined ? {} : { target }),
    ...(created === undefined ? {} : { created }),
    ...(secretIds ? { secrets: secretIds.join(',') } : {}),
    ...(sshIds ? { ssh: sshIds.join(',') } : {}),
  };
}

function prefixed(prefix: string, values: Readonly<Record<string, string>> = {}) {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [`${prefix}${name}`, value]),
  );
}

function checkKeys(field: string, values: Readonly<Record<string, string>>): void {
  const wrong = Object.keys(values).find(key => !optionKeyPattern.test(key));
  if (wrong !== undefined) {
    refuse(
      `'${field}': a name has letters, digits, '.', '_', '/' and '-' only, not ${shown(wrong)}`,
    );
  }
  const length = Object.entries(values).reduce(
    (sum, [key, value]) => sum + key.length + value.length,
    0,
  );
  if (length > maxOptionText) {
    refuse(
      `'${field}' has more than ${maxOptionText} characters in total, names included: shorten it`,
    );
  }
}

function dateOf(text: string): string {
  const isIso = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:\d{2})$/.test(
    text,
  );
  if (!isIso || Number.isNaN(Date.parse(text))) {
    refuse(`'created': ${shown(text)} is not an ISO 8601 time, such as 2026-01-31T12:00:00Z`);
  }
  return new Date(text).toISOString().replace('.000Z', 'Z');
}

/** What steps of a build may use without it being stored anywhere. */
interface SubmittedSecrets {
  /** Base64 values by id, for `RUN --mount=type=secret`. */
  readonly secrets?: Readonly<Record<string, string>> | undefined;
  /** Private keys by the id of their SSH agent, base64, for `RUN --mount=type=ssh`. */
  readonly ssh?: Readonly<Record<string, readonly string[]>> | undefined;
}

/** The ids of the secrets and SSH agents that came with the request, sorted. */
interface SecretIds {
  readonly secretIds?: readonly string[];
  readonly sshIds?: readonly string[];
}

// A server allows a client six keys by default. Each key takes about a millisecond to read.
const mostSecretKeys = 20;
// All secrets of a build, and each of their lines, are looked for in every line of its log.
const mostSecretBytes = 48 * 1024;

/**
 * Checks the secrets and keys of a request. No key of a build contains their values, so two builds with the same key
 * may have different ones. Anyone who may push to the repository can replace its images anyway. Throws a `Fault` (400)
 * that names the field.
 */
function readSecretIds(
  { secrets = {}, ssh = {} }: SubmittedSecrets,
  subject: { readonly isDockerfile: boolean; readonly hasRepository: boolean },
): SecretIds {
  const secretIds = idsIn('secrets', secrets, subject);
  const sshIds = idsIn('ssh', ssh, subject);
  const bytes = Object.values(secrets).reduce(
    (sum, base64) => sum + Buffer.byteLength(base64, 'base64'),
    0,
  );
  if (bytes > mostSecretBytes) {
    refuse(
      `'secrets' has ${bytes} bytes in all, at most ${mostSecretBytes} (48 KiB) are allowed: fetch larger files in the step, with a short secret`,
    );
  }
  checkSshKeys(ssh);
  return {
    ...(secretIds.length > 0 ? { secretIds } : {}),
    ...(sshIds.length > 0 ? { sshIds } : {}),
  };
}

function idsIn(
  field: string,
  values: Readonly<Record<string, unknown>>,
  subject: { readonly isDockerfile: boolean; readonly hasRepository: boolean },
): string[] {
  const ids = Object.keys(values).sort();
  if (ids.length === 0) return [];
  if (!subject.isDockerfile) refuse(`'${field}' requires a Dockerfile in 'containerFile'`);
  if (!subject.hasRepository) {
    refuse(
      `'${field}' requires 'buildRepository', a repository of your own: other callers can use the images in the default one`,
    );
  }
  const wrong = ids.find(id => !/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$/.test(id));
  if (wrong !== undefined) {
    refuse(`'${field}': an id has letters, digits, '_', '.' and '-' only, not ${shown(wrong)}`);
  }
  return ids;
}

function checkSshKeys(ssh: Readonly<Record<string, readonly string[]>>): void {
  const count = Object.values(ssh).flat().length;
  if (count > mostSecretKeys)
    refuse(`'ssh' has ${count} keys, at most ${mostSecretKeys} are allowed`);
  for (const [id, keys] of Object.entries(ssh)) {
    if (keys.length === 0) refuse(`'ssh.${id}' has no key: send a private key, base64`);
    for (const [position, base64] of keys.entries()) checkKey(`'ssh.${id}[${position}]'`, base64);
  }
}

function checkKey(field: string, base64: string): void {
  const bytes = Buffer.from(base64, 'base64');
  if (bytes.toString('base64') !== base64) {
    refuse(`${field} is not base64: encode the file of the private key (RFC 4648, no line breaks)`);
  }
  try {
    readSshKey(bytes);
  } catch (error) {
    if (error instanceof SshKeyError) refuse(`${field} ${error.message}`);
    throw error;
  }
}

/** Full names of images by the names under which BuildKit looks them up, see {@link contextName}. */
export type NamedContexts = Readonly<Record<string, string>>;

/** In a Dockerfile these names refer to neither images nor stages. */
const reservedContexts = new Set(['scratch', 'context']);

/**
 * Returns the images that replace images and stages of the Dockerfile in a request, checked and normalised. Throws a
 * `Fault` (400) that names the field. Source: Docker's `--build-context NAME=docker-image://IMAGE`.
 */
export function readNamedContexts(submitted: Readonly<Record<string, string>> = {}): NamedContexts {
  const contexts = Object.entries(submitted).map(([name, image]) => {
    const field = `namedContexts.${name.slice(0, 80)}`;
    inField(field, () => parseReference(name));
    const short = contextName(name);
    if (reservedContexts.has(short))
      refuse(
        `'${field}': ${shown(short)} cannot be replaced: name another image or stage of the Dockerfile`,
      );
    return [short, formatReference(inField(field, () => parseReference(image)))] as const;
  });
  const read = new Map(contexts);
  if (read.size < contexts.length) {
    refuse("'namedContexts' has two names for one image or stage: remove one of them");
  }
  return Object.fromEntries([...read].sort(([one], [other]) => (one < other ? -1 : 1)));
}

/** Returns the options for named contexts in the key of a build, by name. */
export function contextOptions(contexts: NamedContexts): Record<string, string> {
  return Object.fromEntries(
    Object.entries(contexts).map(([name, image]) => [`context:${name}`, image]),
  );
}

/** Throws {@link Fault} (400) for several platforms. */
export function checkOnePlatform(platforms: readonly Platform[]): void {
  if (platforms.length === 1) return;
  throw new Fault(
    'bad-request',
    "'containerPlatform': a Singularity image is for one platform: make a request for each",
    { phase: 'request' },
  );
}

/**
 * Reads `linux/amd64,linux/arm64`. Returns each platform once, in the order of their names. Throws {@link Fault} (400).
 */
export function readPlatforms(text: string): Platform[] {
  const platforms = inField('containerPlatform', () =>
    text.split(',').map(part => parsePlatform(part.trim())),
  );
  const byName = new Map(platforms.map(platform => [formatPlatform(platform), platform]));
  return [...byName.keys()].sort().map(name => byName.get(name) as Platform);
}
