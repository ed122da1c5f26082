import { compareTexts } from '../../../foundation/text.ts';
import type { DefinitionRuntime } from './definition-runtime.ts';

/** Sources of the labels of an image. */
export interface LabelSources {
  /** Labels of the OCI image. */
  readonly image: Readonly<Record<string, string>>;
  /** Labels that `%post` wrote. */
  readonly written?: Readonly<Record<string, string>>;
  readonly definition: DefinitionRuntime;
  readonly architecture: string;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
}

const usage = 'org.label-schema.usage';

/**
 * Returns the labels of an image, sorted by name. A label of the definition file applies only if the image has no
 * label of that name, as with `apptainer build`.
 */
export function runtimeLabels(sources: LabelSources): Readonly<Record<string, string>> {
  const { image, written, definition, architecture, createdAt } = sources;
  const headers = Object.entries(definition.headers);
  const help = '/.singularity.d/runscript.help';
  const labels = {
    ...definition.labels,
    ...image,
    ...written,
    'org.label-schema.schema-version': '1.0',
    'org.label-schema.build-arch': architecture,
    'org.label-schema.build-date': formatDate(new Date(createdAt)),
    ...(definition.help === undefined
      ? {}
      : { [usage]: help, [`${usage}.apptainer.runscript.help`]: help }),
    ...Object.fromEntries(
      headers.map(([name, value]) => [`${usage}.singularity.deffile.${name}`, value]),
    ),
  };
  return Object.fromEntries(
    Object.entries(labels).sort(([one], [other]) => compareTexts(one, other)),
  );
}

/** Parses labels from lines; each line has a name and a value. */
export function labelsIn(lines: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(
    lines.map(line => {
      const end = line.includes(' ') ? line.indexOf(' ') : line.length;
      return [line.slice(0, end).trim(), line.slice(end).trim()];
    }),
  );
}

const days = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
const months = [
  ...['January', 'February', 'March', 'April', 'May', 'June', 'July', 'August'],
  ...['September', 'October', 'November', 'December'],
];

/** Formats a date as in `Thursday_29_February_2024_12:00:00_UTC`. */
function formatDate(date: Date): string {
  const time = [date.getUTCHours(), date.getUTCMinutes(), date.getUTCSeconds()]
    .map(part => String(part).padStart(2, '0'))
    .join(':');
  const day = days[date.getUTCDay()];
  const month = months[date.getUTCMonth()];
  return `${day}_${date.getUTCDate()}_${month}_${date.getUTCFullYear()}_${time}_UTC`;
}
