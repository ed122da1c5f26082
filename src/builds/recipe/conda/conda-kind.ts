import { compareTexts } from '../../../foundation/text.ts';
import type { PythonLockForm } from '../../../pypi/locks/index.ts';
import { readPipLine } from '../../../pypi/requirements/index.ts';
import type { RecipeKind, RecipeOptions, RecipeSettings, Tool } from '../recipe-kind.ts';
import { type CanonicalField, list, text } from '../text/canonical-document.ts';
import { refuse } from '../text/text-field.ts';
import { requireBuilderReads } from './conda-lock.ts';
import {
  type CondaEnvironment,
  type CondaLock,
  type CondaSource,
  type CondaWanted,
  leftOutIn,
  type PythonLockFile,
  packageUrlsIn,
  pipIn,
} from './conda-source.ts';
import { builderSource, requireReachable } from './install/builder-source.ts';
import { condaRecipe, condaRecipeVersion } from './install/conda-recipe.ts';
import { parsePackage, parseRequirement, pinnedVersion } from './package-spec.ts';
import { readConda, usualMambaImages } from './read-conda.ts';

/**
 * Increases whenever the layers of a native image change for the same packages, or the choice of packages for the same
 * request. Differs from every version of the recipe for BuildKit.
 */
const nativeVersion = 'native-1';

/** Conda packages: a list, an environment file or a lock file. */
export const condaKind: RecipeKind<CondaSource> = {
  kind: 'conda',
  isGenerated: true,
  followsLinks: false,
  lockFile: { artifactType: 'application/vnd.sluice.conda.lock.v1', title: 'conda-lock.txt' },
  read: readConda,

  keyFields: ({ wanted, channels, options }, maker) => [
    text('conda', maker === 'native' ? nativeVersion : condaRecipeVersion),
    list('channel', channels),
    ...wantedFields(wanted),
    // An image that is made natively has no part of the package manager, and no command has run in it.
    ...(maker === 'native' ? [] : [text('mambaImage', options.mambaImage)]),
    text('baseImage', options.baseImage),
    list('basePackage', options.basePackages),
    ...(maker === 'native' ? [] : [list('command', options.commands)]),
  ],

  tools({ wanted }) {
    if (wanted.form !== 'environment') return [];
    return wanted.name === undefined ? packagesOf(wanted) : [{ name: wanted.name }];
  },

  recipe(source, options) {
    const { condaMaker = 'auto', condaChannels } = options;
    const leftOut = leftOutIn(source.wanted);
    const recipe = {
      ...condaRecipe(
        condaChannels ? builderSource(source, condaChannels) : source,
        condaChannels?.indexes,
      ),
      ...(leftOut.length > 0 ? { warnings: [leftOutWarning(leftOut)] } : {}),
    };
    requireNativeLock(source, options);
    if (condaMaker === 'buildkit') {
      requireBuilderReads(source);
      requireReachable(source, [], condaChannels);
      return recipe;
    }
    const reasons = builderReasons(source, options);
    if (reasons.length === 0) return { ...recipe, maker: 'native', conda: source };
    if (condaMaker === 'native')
      refuse(
        `This server makes images of Conda packages without a builder, and ${reasons.join(', ')} requires one: leave it out, or ask the operator for 'builds.conda: auto'`,
      );
    requireBuilderReads(source);
    requireReachable(source, reasons, condaChannels);
    return { ...recipe, builderReasons: reasons };
  },
  partOf: () => undefined,
};

function leftOutWarning(names: readonly string[]): string {
  return `The lock file also has packages of ${names.join(', ')}, which are not installed: an image has the packages that are not optional, of a pixi.lock those of the environment 'default'. To install others, lock them without a category, or in that environment`;
}

function wantedFields(wanted: CondaWanted): CanonicalField[] {
  switch (wanted.form) {
    case 'environment':
      return [
        ...(wanted.name === undefined ? [] : [text('name', wanted.name)]),
        list('package', wanted.packages),
        list('pip', wanted.pip),
        list('variable', wanted.variables),
        ...(wanted.pythonLock ? lockFields(wanted.pythonLock) : []),
      ];
    case 'lock':
      return lockedFields(wanted);
    case 'locks':
      return wanted.platforms.flatMap(lock => [
        text('lockedFor', lock.subdir),
        ...lockedFields(lock),
      ]);
    case 'lockUrl':
      return [text('lockUrl', wanted.url)];
  }
}

function lockFields({ text: content, parts }: PythonLockFile): CanonicalField[] {
  return [
    text('pythonLock', content),
    ...(parts.extras.length > 0 ? [list('extra', parts.extras)] : []),
    ...(parts.groups.length > 0 ? [list('group', parts.groups)] : []),
  ];
}

function lockedFields({ urls, sha256s, pip }: Omit<CondaLock, 'form'>): CanonicalField[] {
  return [
    list('locked', urls),
    ...(sha256s ? [list('lockedSha256', sha256s)] : []),
    list('lockedPip', pip),
  ];
}

/** Returns Conda's packages by name, then pip's in their order. Omits URLs and options of pip. */
function packagesOf({ packages, pip }: CondaEnvironment): readonly Tool[] {
  const specs = packages
    .map(parsePackage)
    .filter(spec => spec !== undefined)
    .map(spec => ({ name: spec.name, version: pinnedVersion(spec) }))
    .sort((one, other) => compareTexts(one.name, other.name));
  const requirements = pip.map(parseRequirement).filter(found => found !== undefined);
  const byName = new Map<string, Tool>();
  for (const tool of [...specs, ...requirements]) {
    if (!byName.has(tool.name)) byName.set(tool.name, tool);
  }
  return [...byName.values()];
}

/** Higher ones take ten times the time, and builders limit the processor time of their callers. */
const mostZstdLevel = 12;

/**
 * Returns what only a builder can do for a source, in words that name the fields of the request; empty for an image that
 * Sluice can make itself. Packages with link scripts also require a builder, but only the packages themselves show that.
 */
function builderReasons(
  { wanted, channels, options }: CondaSource,
  {
    labels = {},
    annotations = {},
    created,
    solvesPython,
    layers: { mode, level = 0 } = { mode: 'gzip' },
  }: RecipeOptions & RecipeSettings,
): readonly string[] {
  const { mambaImage, commands } = options;
  const reasons: readonly (readonly [reason: string, isGiven: boolean])[] = [
    ["'condaOpts.commands'", commands.length > 0],
    [`'condaOpts.mambaImage' ${mambaImage}`, !usualMambaImages.includes(mambaImage)],
    ...pipReasons(wanted, solvesPython === true).map(reason => [reason, true] as const),
    ["a package of a 'file' URL", packageUrlsIn(wanted).some(url => url.startsWith('file:'))],
    [
      "a channel of a 'file' or 'oci' URL",
      channels.some(channel => /^(?:file|oci):/.test(channel)),
    ],
    ["'labels'", Object.keys(labels).length > 0],
    ["'annotations'", Object.keys(annotations).length > 0],
    ["'created'", created !== undefined],
    [
      `'buildCompression.level' ${level} (of zstd, more than ${mostZstdLevel})`,
      mode === 'zstd' && level > mostZstdLevel,
    ],
  ];
  return reasons.filter(([, isGiven]) => isGiven).map(([reason]) => reason);
}

/** Throws a `Fault` (400) for a lock file of Python packages that only a builder could install: it does not read them. */
function requireNativeLock(source: CondaSource, options: RecipeOptions & RecipeSettings): void {
  const { wanted } = source;
  if (wanted.form !== 'environment' || wanted.pythonLock === undefined) return;
  const { file } = wanted.pythonLock;
  const remedy = `send a requirements.txt instead, such as ${requirementsOf[file]} prints`;
  // Undefined where a name is made without a server, which alone knows.
  if (options.condaMaker === 'buildkit' || options.solvesPython === false) {
    refuse(
      `This server installs no Python packages without a builder, and a builder does not read a ${file}: ${remedy}, or ask the operator for 'builds.uv: auto'`,
    );
  }
  const reasons = builderReasons(source, options);
  if (reasons.length === 0) return;
  refuse(
    `A builder does not read a ${file}, and ${reasons.join(', ')} requires one: leave it out, or ${remedy}`,
  );
}

/** The commands that print the packages of lock files as requirements. */
const requirementsOf: Readonly<Record<PythonLockForm, string>> = {
  'uv.lock': "'uv export --format requirements.txt'",
  'pylock.toml': "'uv export --format requirements.txt'",
  'poetry.lock': "'poetry export'",
};

const mostReasons = 5;

/** Returns what requires a builder among the packages of pip. */
function pipReasons(wanted: CondaWanted, solvesPython: boolean): readonly string[] {
  const lines = pipIn(wanted);
  if (lines.length === 0) return [];
  if (!solvesPython) return ["the 'pip' packages"];
  const isLocked = wanted.form !== 'environment';
  const reasons = lines.map(readPipLine).flatMap(line => {
    if (line.kind === 'builder') return [line.reason];
    // A lock file promises the same files each time.
    if (line.kind === 'address' && isLocked) return [`the address of ${line.wheel.name} for pip`];
    // What it requires is unknown before it is built.
    if (line.kind === 'source' && !isLocked) return [`the address of ${line.project.name} for pip`];
    return [];
  });
  return [...new Set(reasons)].slice(0, mostReasons);
}
