import { Fault } from '../../foundation/fault.ts';
import { Semaphore } from '../../foundation/semaphore.ts';
import { runTask } from '../threads/one-task.ts';
import { inRoom, threadNeeds } from '../threads/thread-room.ts';
import { billOf, type DocumentedSolution, packBill } from './bill.ts';
import { type DocumentForm, type DocumentName, documentForms } from './document-form.ts';
import type { DocumentOrder, WrittenName } from './document-worker.ts';
import type { PlatformParts } from './platform-parts.ts';

/** A document about a solution. */
export interface SolutionDocument extends DocumentForm {
  readonly name: DocumentName;
  readonly text: string;
}

/** What goes with the image of a solution. */
export interface SolutionDocuments {
  /** Text of the explicit lock file. */
  readonly lockFile: string;
  /** The bill as it is kept with the build: {@link writeDocument} writes any document from it. */
  readonly solution: Buffer;
  /** The documents that are attached to the image as referrers: the explicit lock file and the bills of materials. */
  readonly attached: readonly SolutionDocument[];
}

// One at a time: a thread with the libraries of the forms takes 30 MB.
const queue = new Semaphore({ limit: 1 });
const requests = new Semaphore({
  limit: 1,
  mostWaiting: 100,
  refusal: () =>
    new Fault('unavailable', 'Many documents are being written: try again in a moment', {
      phase: 'request',
    }),
});

/** Returns the documents of a solution. The same solution gives the same bytes. */
export async function documentsOf(given: DocumentedSolution): Promise<SolutionDocuments> {
  const solution = await packBill(billOf(given));
  const names = ['explicit', 'spdx', 'cyclonedx'] as const;
  const [lockFile = '', ...bills] = await queue.run(() => write(solution, names));
  const attached = [lockFile, ...bills].map((text, position) => {
    const name = names[position] as DocumentName;
    return { name, text, ...documentForms[name] };
  });
  return { lockFile, solution, attached };
}

/**
 * Returns a document about the solution of a finished build. Throws a `Fault` (404) when the form requires what the
 * channel does not state, and 503 while many others wait.
 *
 * @param kept the bill that was kept with the build
 */
export async function writeDocument(kept: Uint8Array, name: DocumentName): Promise<string> {
  const [text = ''] = await requests.run(() => write(kept, [name]));
  return text;
}

/** Returns what is in the image of a finished build, for each platform. @param kept as of {@link writeDocument} */
export async function partsInBill(kept: Uint8Array): Promise<readonly PlatformParts[]> {
  const [text = '[]'] = await queue.run(() => write(kept, ['parts']));
  return JSON.parse(text) as readonly PlatformParts[];
}

/** Writes on another thread: the libraries of the forms take 75 ms to load. */
function write(kept: Uint8Array, names: readonly WrittenName[]): Promise<readonly string[]> {
  const worker = new URL('./document-worker.ts', import.meta.url);
  const order: DocumentOrder = { kept, names };
  return inRoom(threadNeeds.documents, () => runTask(worker, order));
}
