import { Fault } from '../foundation/fault.ts';
import { maxNameLength, parseReference } from '../oci/naming.ts';
import { tokenLength } from './tokens/container-token.ts';

/** Throws a {@link Fault} (400) if the name by which a repository is served is longer than clients accept. */
export function checkServedLength(servedBase: string, repository: string): void {
  checkLength(`${servedBase}/`.length + tokenLength + `/${repository}`.length, ", or 'freeze'");
}

/** Throws a {@link Fault} (400) if the name of a frozen image is longer than clients accept. */
export function checkFrozenLength(target: string): void {
  const { registry, repository } = parseReference(target);
  checkLength(`${registry}/${repository}`.length, '');
}

function checkLength(length: number, also: string): void {
  if (length <= maxNameLength) return;
  throw new Fault(
    'bad-request',
    `The name to pull would have ${length} characters without its tag, and clients accept at most ${maxNameLength}: use an image or a 'buildRepository' with a shorter name, another 'nameStrategy' than imageSuffix${also}`,
    { phase: 'request' },
  );
}
