import type { RecipeKind, Tool } from '../recipe-kind.ts';
import { type CanonicalField, list, text } from '../text/canonical-document.ts';
import type { CondaEnvironment, CondaSource, CondaWanted } from './conda-source.ts';
import { condaRecipe, condaRecipeVersion } from './install/conda-recipe.ts';
import { parsePackage, pinnedVersion } from './package-spec.ts';
import { parseRequirement } from './pip-requirement.ts';
import { readConda } from './read-conda.ts';

/** Conda packages: a list, an environment file or a lock file. */
export const condaKind: RecipeKind<CondaSource> = {
  kind: 'conda',
  isGenerated: true,
  followsLinks: false,
  lockFile: { artifactType: 'application/vnd.sluice.conda.lock.v1', title: 'conda-lock.txt' },
  read: readConda,

  keyFields: ({ wanted, channels, options }) => [
    text('conda', condaRecipeVersion),
    list('channel', channels),
    ...wantedFields(wanted),
    text('mambaImage', options.mambaImage),
    text('baseImage', options.baseImage),
    list('basePackage', options.basePackages),
    list('command', options.commands),
  ],

  tools({ wanted }) {
    if (wanted.form !== 'environment') return [];
    return wanted.name === undefined ? packagesOf(wanted) : [{ name: wanted.name }];
  },

  recipe: condaRecipe,
  partOf: () => undefined,
};

function wantedFields(wanted: CondaWanted): CanonicalField[] {
  switch (wanted.form) {
    case 'environment':
      return [
        ...(wanted.name === undefined ? [] : [text('name', wanted.name)]),
        list('package', wanted.packages),
        list('pip', wanted.pip),
        list('variable', wanted.variables),
      ];
    case 'lock':
      return [list('locked', wanted.urls), list('lockedPip', wanted.pip)];
    case 'lockUrl':
      return [text('lockUrl', wanted.url)];
  }
}

/** Returns Conda's packages by name, then pip's in their order. Omits URLs and options of pip. */
function packagesOf({ packages, pip }: CondaEnvironment): readonly Tool[] {
  const specs = packages
    .map(parsePackage)
    .filter(spec => spec !== undefined)
    .map(spec => ({ name: spec.name, version: pinnedVersion(spec) }))
    .sort((one, other) => (one.name < other.name ? -1 : one.name > other.name ? 1 : 0));
  const requirements = pip.map(parseRequirement).filter(found => found !== undefined);
  const byName = new Map<string, Tool>();
  for (const tool of [...specs, ...requirements]) {
    if (!byName.has(tool.name)) byName.set(tool.name, tool);
  }
  return [...byName.values()];
}
