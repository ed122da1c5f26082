import { Fault } from '../../foundation/fault.ts';

/**
 * Returns the steps that a database still needs.
 *
 * @param current number of steps that the database has
 * @throws {@link Fault} when a newer version took steps that this one does not know
 */
export function stepsAfter(current: number, steps: readonly string[]): readonly string[] {
  if (current <= steps.length) return steps.slice(current);
  throw new Fault(
    'internal',
    `The database has schema ${current}, and this version supports up to ${steps.length}: start the newer version that wrote it`,
    { phase: 'store' },
  );
}

/**
 * Returns the fault for a database of a development version, whose schema has no steps to the first released one.
 *
 * @param place how the message names it
 * @param remedy where new rows can go
 */
export function unreleasedSchema(place: string, remedy: string): Fault {
  return new Fault(
    'internal',
    `${place} was written by a development version before the first release, whose schema this version cannot read. Nothing in it was changed: start the version that wrote it, or ${remedy} to start empty`,
    { phase: 'store' },
  );
}
