import { isDefinition, translateDefinition } from '../../../images/sif/definition/index.ts';
import { formatReference, parseReference } from '../../../oci/naming.ts';
import { inField } from '../../plan/field.ts';
import type { FailedPart, RecipeKind } from '../recipe-kind.ts';
import { base64Text } from '../text/base64-text.ts';
import { condaFileIn, type FileSource, fileKeyFields, filesOf } from '../text/caller-file.ts';
import { refuse } from '../text/refuse.ts';

/** A definition file of Singularity or Apptainer. */
export interface DefinitionSource extends FileSource {
  readonly kind: 'definition';
}

export const definitionKind: RecipeKind<DefinitionSource> = {
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

const sections: Readonly<Record<string, string>> = {
  files: 'files',
  prepare: 'post',
  host: 'setup',
  try: 'test',
};

/** Returns the section of a definition file that a step of its Dockerfile runs; undefined for any other step. */
function sectionOfStep(step: string): FailedPart | undefined {
  const [, script = ''] = /\["\/bin\/sh","\/dev\/sluice\/(\w+)"/.exec(step) ?? [];
  const section = step.startsWith('[sluice-files-') ? 'files' : sections[script];
  if (section === undefined) return undefined;
  const isTest = section === 'test';
  const advice = isTest ? "; to build without it, set 'noTest' (sluice build --no-test)" : '';
  return { name: `'%${section}' of the definition file`, advice };
}
