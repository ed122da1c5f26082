import { refuse, shown } from '../recipe/text/refuse.ts';
import { readSecretIds, type SecretIds, type SubmittedSecrets } from './build-secrets.ts';

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
export interface OptionsSubject {
  /** True if the caller sends a Dockerfile: some options apply only to its stages. */
  readonly isDockerfile: boolean;
  readonly isSif: boolean;
  /** True if the request names a repository. */
  readonly hasRepository: boolean;
}

// They control the builder itself: which frontend reads the file, and which caches are shared.
const reservedArg = /^(?:BUILDKIT_|SOURCE_DATE_EPOCH$)/;
const keyPattern = /^[A-Za-z0-9][A-Za-z0-9._/-]{0,254}$/;
const maxText = 256 * 1024;

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
  const wrong = Object.keys(values).find(key => !keyPattern.test(key));
  if (wrong !== undefined) {
    refuse(
      `'${field}': a name has letters, digits, '.', '_', '/' and '-' only, not ${shown(wrong)}`,
    );
  }
  const length = Object.entries(values).reduce(
    (sum, [key, value]) => sum + key.length + value.length,
    0,
  );
  if (length > maxText) {
    refuse(`'${field}' has more than ${maxText} characters in total, names included: shorten it`);
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
