import type { SubmittedBuild } from '../submitted.ts';
import { base64Text } from './base64-text.ts';
import { type CanonicalField, text } from './canonical-document.ts';

/** A file of the caller, and the Conda file that may come with it. */
export interface FileSource {
  readonly text: string;
  /** Text of `conda.yml` in the build context. */
  readonly condaFile?: string | undefined;
}

/** The place of the Conda file in the build context. */
const condaFileName = 'conda.yml';

/** Returns the Conda file of a request, decoded; nothing for a request without one. */
export function condaFileIn({ condaFile }: SubmittedBuild): Pick<FileSource, 'condaFile'> {
  return condaFile === undefined ? {} : { condaFile: base64Text('condaFile', condaFile) };
}

/** Returns the files that the build context has besides those of the caller. */
export function filesOf({ condaFile }: FileSource): ReadonlyMap<string, string> {
  return new Map(condaFile === undefined ? [] : [[condaFileName, condaFile]]);
}

/** Returns the fields of the build key: both files as they are. */
export function fileKeyFields(source: FileSource): CanonicalField[] {
  const { condaFile } = source;
  return [
    text('containerFile', source.text),
    ...(condaFile === undefined ? [] : [text('condaFile', condaFile)]),
  ];
}
