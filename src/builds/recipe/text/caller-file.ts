import type { SubmittedBuild } from '../submitted.ts';
import { base64Text } from './base64-text.ts';
import { type CanonicalField, text } from './canonical-document.ts';

/** A file of the caller, and the Conda file that may come with it. */
export interface FileSource {
  readonly text: string;
  /** Text of `conda.yml` in the build context. */
  readonly condaFile?: string | undefined;
}

/** Path of the Conda file in the build context. */
const condaFileName = 'conda.yml';

/** Returns the Conda file of a request, decoded; an empty object for a request without one. */
export function condaFileIn({ condaFile }: SubmittedBuild): Pick<FileSource, 'condaFile'> {
  return condaFile === undefined ? {} : { condaFile: base64Text('condaFile', condaFile) };
}

/** Returns the files that are added to the caller's build context. */
export function filesOf({ condaFile }: FileSource): ReadonlyMap<string, string> {
  return new Map(condaFile === undefined ? [] : [[condaFileName, condaFile]]);
}

/** Returns the fields of the build key: both files unchanged. */
export function fileKeyFields(source: FileSource): CanonicalField[] {
  const { condaFile } = source;
  return [
    text('containerFile', source.text),
    ...(condaFile === undefined ? [] : [text('condaFile', condaFile)]),
  ];
}
