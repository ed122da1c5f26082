import { labelsIn } from '../../runtime/labels.ts';
import { type DefinitionStage, isBlankOrComment } from '../parser.ts';

/** Returns the labels that the sections of a name list. */
export function labelsOf(
  { sections }: Pick<DefinitionStage, 'sections'>,
  section: string,
): Readonly<Record<string, string>> {
  const lines = sections
    .filter(({ name }) => name === section)
    .flatMap(({ body }) => body)
    .filter(line => !isBlankOrComment(line))
    .map(({ text }) => text.trim());
  return labelsIn(lines);
}
