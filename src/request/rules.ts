import {
  type BuildPlaces,
  checkCompression,
  frozenPlace,
  inField,
  mirrorTarget,
} from '../builds/plan/index.ts';
import { Fault } from '../foundation/fault.ts';
import { givenFields } from '../images/augment/container-config.ts';
import { maxNameLength, parseReference } from '../oci/naming.ts';
import type { ApiVersion, Submission } from './container-request.ts';

type FrozenPlaces = Pick<BuildPlaces, 'frozen' | 'local'>;

/**
 * Checks the rules between several fields of a submission, in the order in which they are reported. Throws a {@link
 * Fault}: 400 for a broken rule, with the field and the remedy. Source: container service specification, sections 2.1,
 * 2.3 and 7.
 */
export function checkRules(
  submission: Submission,
  version: ApiVersion,
  places: FrozenPlaces,
): void {
  if (version === 'v1alpha1') checkLegacy(submission);
  checkWhatToServe(submission);
  checkMirror(submission, version);
  checkFreeze(submission, places);
  if (!submission.mirror) checkRepository('buildRepository', submission.buildRepository);
  checkRepository('cacheRepository', submission.cacheRepository);
  checkTimestamp(submission.timestamp);
  checkConfig(submission);
  checkPackages(submission);
  checkContexts(submission);
  checkArguments(submission);
  checkCompression(submission);
  checkBuildOptions(submission);
}

function checkLegacy({ packages, nameStrategy }: Submission): void {
  const field = packages ? 'packages' : nameStrategy ? 'nameStrategy' : undefined;
  if (field)
    refuse(`'${field}' is not supported by /container-token: use POST /v1alpha2/container`);
}

function checkWhatToServe(submission: Submission): void {
  const { containerImage, containerFile, condaFile, packages } = submission;
  if (containerImage !== undefined && containerFile !== undefined) {
    refuse("'containerImage' must be omitted when 'containerFile' is given: send one of the two");
  }
  const source = condaFile !== undefined ? 'condaFile' : packages ? 'packages' : undefined;
  if (containerImage !== undefined && source) {
    refuse(`'containerImage' must be omitted when '${source}' is given: send one of the two`);
  }
  if (
    containerImage === undefined &&
    containerFile === undefined &&
    !source &&
    !submission.spackFile
  ) {
    refuse(
      "The request names no image: 'containerFile' (or 'packages') is required when 'containerImage' is omitted, so send one of the three",
    );
  }
  if (containerFile !== undefined && packages) {
    refuse("'packages' must be omitted when 'containerFile' is given: send one of the two");
  }
}

function checkFreeze(submission: Submission, places: FrozenPlaces): void {
  const { freeze, buildRepository, format, defaultRepository } = submission;
  if (freeze && (buildRepository ?? frozenPlace(submission, places)) === undefined) {
    refuse(
      defaultRepository
        ? "'freeze' requires 'buildRepository': without a login, this server has no repository for images that stay. Send an access token of a user (SLUICE_TOKEN for the command line), name a repository that you may push to, or ask the operator to set freezeRepository"
        : "'freeze' requires 'buildRepository': name the repository to push to, or send 'defaultRepository: true' for the one that this server has for you. The operator can set one for requests without both (freezeRepository)",
    );
  }
  if (submission.noCache && frozenPlace(submission, places) !== undefined) {
    refuse(
      "'noCache' requires 'buildRepository': others rely on the frozen images of the default one, which stay as they are",
    );
  }
  if (format === 'sif' && !freeze) {
    refuse(
      "'format: sif' requires 'freeze: true', and 'buildRepository' or 'defaultRepository: true': a Singularity image is always pushed to a repository, so set both",
    );
  }
}

/** Source: reference service, checks of a mirror request. */
function checkMirror(submission: Submission, version: ApiVersion): void {
  const { mirror, buildRepository, containerImage, containerConfig, containerFile } = submission;
  if (!mirror) return;
  if (version === 'v1alpha1') {
    refuse("'mirror' is not supported by /container-token: use POST /v1alpha2/container");
  }
  if (containerImage === undefined) {
    refuse("'mirror' requires 'containerImage': name the image to copy");
  }
  const { freeze, format } = submission;
  const containerIncludes = submission.containerIncludes?.length;
  const others = { freeze, containerFile, containerIncludes, format: format === 'sif' };
  const config = Object.values(givenFields(containerConfig ?? {}));
  const [conflict] =
    Object.entries(others).find(([, value]) => value) ??
    (config.length > 0 || containerConfig?.layers?.length ? ['containerConfig'] : []);
  if (conflict) {
    refuse(
      `'${conflict}' cannot be sent with 'mirror', which copies an image as it is: send 'freeze' instead of 'mirror' for a changed image`,
    );
  }
  if (buildRepository === undefined) {
    refuse(
      "'mirror' requires 'buildRepository': name the registry or the repository to copy to, such as registry.example.com/mirror",
    );
  }
  inField('buildRepository', () => mirrorTarget(buildRepository, 'image'));
}

function checkRepository(field: string, value: string | undefined): void {
  if (value === undefined) return;
  const { registry, repository, tag, digest } = inField(field, () => parseReference(value));
  const { length } = `${registry}/${repository}`;
  if (length > maxNameLength) {
    refuse(
      `'${field}' has ${length} characters, and clients accept names of at most ${maxNameLength}: use a shorter one`,
    );
  }
  // Without a path, the port of a registry looks like a tag.
  if (!value.includes('/')) {
    refuse(
      `'${field}' is incomplete: write registry/path, such as registry.example.com/team/build`,
    );
  }
  const hasReference = digest !== undefined || value.endsWith(`:${tag}`);
  if (hasReference) refuse(`'${field}' must be a repository without a tag or digest: remove it`);
}

function checkTimestamp(timestamp: string | undefined): void {
  if (timestamp === undefined) return;
  const [, day = ''] = /^(\d{4}-\d{2}-\d{2})T\d{2}:\d{2}/.exec(timestamp) ?? [];
  if (!isDay(day) || Number.isNaN(Date.parse(timestamp))) {
    refuse("'timestamp' is not an ISO 8601 date and time, such as 2026-01-31T12:00:00Z");
  }
}

/** `Date` accepts 30 February as one of the first days of March. */
function isDay(day: string): boolean {
  const date = new Date(`${day}T00:00:00Z`);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(day);
}

// The size limit of a file that lists packages.
const maxPackageText = 256 * 1024;

function checkPackages({ packages }: Submission): void {
  const { entries = [], channels = [], condaOpts } = packages ?? {};
  const length = textLength([...entries, ...channels, ...(condaOpts?.commands ?? [])]);
  if (length > maxPackageText) {
    refuse(
      `'packages': entries, channels and commands have ${length} characters in total, at most ${maxPackageText} are allowed`,
    );
  }
}

function textLength(texts: readonly string[]): number {
  return texts.reduce((sum, { length }) => sum + length, 0);
}

// By default, Linux passes 2 MiB of arguments and environment to a program, including the environment of its image.
const maxConfigText = 1024 * 1024;

function checkConfig({ containerConfig }: Submission): void {
  const lists = Object.values(givenFields(containerConfig ?? {})).filter(Array.isArray);
  const length = textLength(lists.flat());
  if (length > maxConfigText) {
    refuse(
      `'containerConfig': entrypoint, cmd and env have ${length} characters in total, at most ${maxConfigText} are allowed`,
    );
  }
  for (const [position, entry] of (containerConfig?.env ?? []).entries()) {
    if (!/^[^=]+=/.test(entry) || entry.includes('\0')) {
      refuse(`'containerConfig.env[${position}]' is not of the form NAME=value`);
    }
  }
}

function checkContexts(submission: Submission): void {
  const { containerFile, containerImage, buildContext, namedContexts } = submission;
  if (buildContext && containerImage !== undefined) {
    refuse("'buildContext' is for builds: send it with 'containerFile' or 'packages'");
  }
  if (namedContexts && Object.keys(namedContexts).length > 0 && containerFile === undefined) {
    refuse(
      "'namedContexts' requires 'containerFile': set the images for packages in 'packages.condaOpts'",
    );
  }
}

// The size limit of a definition file with its arguments.
const maxArgumentText = 256 * 1024;

function checkArguments({ buildArgs = {}, noTest, containerFile }: Submission): void {
  const names = Object.keys(buildArgs);
  if (containerFile === undefined && (names.length > 0 || noTest)) {
    const field = noTest ? 'noTest' : 'buildArgs';
    refuse(`'${field}' requires 'containerFile': it applies to that file only`);
  }
  if (textLength([...names, ...Object.values(buildArgs)]) > maxArgumentText) {
    refuse(`'buildArgs' has more than ${maxArgumentText} characters`);
  }
  const wrong = names.find(name => !/^\w+$/.test(name));
  if (wrong === undefined) return;
  refuse(
    `'buildArgs': a name has letters, digits and _ only, not ${JSON.stringify(wrong.slice(0, 80))}`,
  );
}

function checkBuildOptions(submission: Submission): void {
  const { containerImage, buildTarget, labels, annotations, created, noCache, secrets, ssh } =
    submission;
  if (containerImage === undefined) return;
  const given = Object.entries({
    buildTarget,
    labels,
    annotations,
    created,
    noCache,
    secrets,
    ssh,
  });
  const [field] = given.find(([, value]) => value !== undefined && value !== false) ?? [];
  if (field) refuse(`'${field}' is for builds: send it with 'containerFile' or 'packages'`);
}

function refuse(message: string): never {
  throw new Fault('bad-request', message, { phase: 'request' });
}
