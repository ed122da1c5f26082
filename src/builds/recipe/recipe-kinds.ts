import { isDefinition, translateDefinition } from '../../images/sif/definition/index.ts';
import { defaultPlatform, formatReference, parseReference } from '../../oci/naming.ts';
import { condaKind } from './conda/conda-kind.ts';
import { cranKind } from './cran/cran-kind.ts';
import type { FailedPart, RecipeKind, RecipeRequest, Source, SourceKind } from './recipe-kind.ts';
import { condaFileIn, type FileSource, fileKeyFields, filesOf, spackRetired } from './submitted.ts';
import { text } from './text/canonical-document.ts';
import { base64Text, inField, refuse } from './text/text-field.ts';

/** An existing image: a build only changes and copies it. */
interface ImageSource {
  readonly kind: 'image';
  readonly digest: string;
}

const imageKind: SourceKind<ImageSource> = {
  kind: 'image',
  keyFields: ({ digest }) => [text('image', digest)],
  tools: () => [],
};

/** A Dockerfile, used unchanged. */
interface DockerfileSource extends FileSource {
  readonly kind: 'dockerfile';
}

export const dockerfileKind: RecipeKind<DockerfileSource> = {
  kind: 'dockerfile',
  isGenerated: false,
  followsLinks: false,
  lockFile: undefined,

  read({ submitted }) {
    const { containerFile, noTest } = submitted;
    if (containerFile === undefined) return undefined;
    const dockerfile = base64Text('containerFile', containerFile);
    if (noTest) {
      refuse(
        "'noTest' is for Singularity definition files, and 'containerFile' is a Dockerfile: leave 'noTest' out",
      );
    }
    return { kind: 'dockerfile', text: dockerfile, ...condaFileIn(submitted) };
  },

  keyFields: fileKeyFields,
  tools: () => [],
  recipe: source => ({ maker: 'buildkit', dockerfile: source.text, files: filesOf(source) }),
  partOf: () => undefined,
};

/** A definition file of Singularity or Apptainer. */
interface DefinitionSource extends FileSource {
  readonly kind: 'definition';
}

const definitionKind: RecipeKind<DefinitionSource> = {
  kind: 'definition',
  isGenerated: true,
  // %files copies the target of a link, as `cp -L` does.
  followsLinks: true,
  lockFile: undefined,

  read({ submitted }) {
    const { containerFile, format } = submitted;
    if (containerFile === undefined) return undefined;
    const definition = base64Text('containerFile', containerFile);
    if (!isDefinition(definition)) return undefined;
    if (format !== 'sif') {
      refuse(
        "'containerFile' is a Singularity definition file: set 'format' to sif, or send a Dockerfile",
      );
    }
    return { kind: 'definition', text: definition, ...condaFileIn(submitted) };
  },

  keyFields: fileKeyFields,
  tools: () => [],

  recipe(source, { buildArgs, noTest, ownHost, hasContext }) {
    const { dockerfile, sifBases, sifFiles, shellless, ...definition } = inField(
      'containerFile',
      () => translateDefinition(source.text, { buildArgs, runsTest: !noTest, ownHost, hasContext }),
    );
    const files = filesOf(source);
    const original = source.text;
    const recipe = { maker: 'buildkit', dockerfile, files, original, definition } as const;
    const named = Object.entries(sifBases).map(
      ([name, image]) => [name, formatReference(parseReference(image))] as const,
    );
    return {
      ...recipe,
      ...(shellless ? { shellless } : {}),
      ...(named.length > 0 ? { sifBases: Object.fromEntries(named) } : {}),
      ...(Object.keys(sifFiles).length > 0 ? { sifFiles } : {}),
    };
  },

  partOf: sectionOfStep,
};

const sectionNames: Readonly<Record<string, string>> = {
  files: 'files',
  prepare: 'post',
  host: 'setup',
  try: 'test',
};

/** Returns the section of a definition file that a step of its Dockerfile runs; undefined for any other step. */
function sectionOfStep(step: string): FailedPart | undefined {
  const [, script = ''] = /\["\/bin\/sh","\/dev\/sluice\/(\w+)"/.exec(step) ?? [];
  const section = step.startsWith('[sluice-files-') ? 'files' : sectionNames[script];
  if (section === undefined) return undefined;
  const isTest = section === 'test';
  const advice = isTest ? "; to build without it, set 'noTest' (sluice build --no-test)" : '';
  return { name: `'%${section}' of the definition file`, advice };
}

/** All kinds of recipe. The first kind that can read a request is the kind of the request. */
const recipeKinds = [definitionKind, dockerfileKind, cranKind, condaKind] as const;

type SourceOf<Kind> = Kind extends SourceKind<infer S> ? S : never;

/** What a recipe is read from: a Dockerfile, packages, a lock file ... */
export type RecipeSource = SourceOf<(typeof recipeKinds)[number]>;

/** What an image is made from: a recipe, or an existing image. */
export type BuildSource = RecipeSource | ImageSource;

export type RecipeKindName = RecipeSource['kind'];

const byName = new Map<string, unknown>([...recipeKinds, imageKind].map(kind => [kind.kind, kind]));

/** Returns the kind that has read a source, with the type of that source. */
export function sourceKindOf<S extends BuildSource>({ kind }: S): SourceKind<S> {
  return byName.get(kind) as SourceKind<S>;
}

/** Returns a kind of recipe by its name, for code that knows nothing else of the source. */
export function recipeKindNamed(name: RecipeKindName): RecipeKind<Source> {
  return byName.get(name) as RecipeKind<Source>;
}

/**
 * Returns the source that a request specifies, decoded, checked and normalised. Throws a `Fault` (400) that names the
 * field and the remedy, also when the request specifies no source. Source: specification, sections 2.1 and 2.3.
 *
 * @param platforms target platforms of the build
 */
export function readBuildSource(
  submitted: RecipeRequest['submitted'],
  platforms: RecipeRequest['platforms'] = [defaultPlatform],
): RecipeSource {
  const { containerFile, condaFile, spackFile, packages } = submitted;
  if (spackFile !== undefined) refuse(`'spackFile': ${spackRetired}`);
  if (packages !== undefined && (containerFile !== undefined || condaFile !== undefined)) {
    const other = containerFile === undefined ? 'condaFile' : 'containerFile';
    refuse(`'${other}' and 'packages' exclude each other: send one of them`);
  }
  for (const kind of recipeKinds) {
    const source = kind.read({ submitted, platforms });
    if (source) return source;
  }
  refuse("There is nothing to build: send 'containerFile', 'packages' or 'condaFile'");
}
