import type { RecipeKind } from '../recipe-kind.ts';
import { base64Text } from '../text/base64-text.ts';
import { condaFileIn, type FileSource, fileKeyFields, filesOf } from '../text/caller-file.ts';
import { refuse } from '../text/refuse.ts';

/** A Dockerfile, used unchanged. */
export interface DockerfileSource extends FileSource {
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
