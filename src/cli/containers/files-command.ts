import { terminalLine } from '../../foundation/text/terminal-text.ts';
import { supportedPlatforms } from '../../oci/naming.ts';
import { type Command, only, text, type Values } from '../command/command.ts';
import {
  jsonOption,
  serverOption,
  serverVariables,
  tokenVariable,
} from '../command/common-options.ts';
import { print, table } from '../command/output.ts';
import { post } from '../server/server-client.ts';
import { claimOf, claimOptions } from './caller-options.ts';

interface LayerFile {
  readonly path: string;
  readonly kind: string;
  readonly change?: string;
  readonly bytes: number;
  readonly mode?: string;
  readonly uid?: number;
  readonly gid?: number;
  readonly target?: string;
}

interface FilesResponse {
  readonly digest: string;
  readonly number: number;
  readonly layers: number;
  readonly state: 'reading' | 'complete' | 'incomplete';
  readonly reason?: string;
  readonly bytes?: number;
  readonly count?: number;
  readonly page?: number;
  readonly pages?: number;
  readonly files: readonly LayerFile[];
  readonly waste?: { readonly image: { readonly bytes: number; readonly wastedBytes: number } };
}

const waitSeconds = 20;
const filters = ['platform', 'layer', 'path', 'name', 'change', 'sort', 'page'] as const;
const changes = ['added', 'changed', 'attributes', 'again', 'removed'];

/** `sluice files`: shows what is in a layer of an image. */
export const filesCommand: Command = {
  summary: 'Show the files of a layer of an image, and what they change',
  usage: ['IMAGE'],
  options: {
    layer: {
      type: 'string',
      value: 'NUMBER|DIGEST',
      description: 'Layer to show, counted from 1 for the lowest. Default: the highest',
    },
    path: {
      type: 'string',
      value: 'DIRECTORY',
      description: 'Directory of the layer. Default: the root',
    },
    name: {
      type: 'string',
      value: 'TEXT',
      description: 'Show files anywhere in the layer whose name contains the text',
    },
    change: {
      type: 'string',
      value: changes.join('|'),
      completes: changes,
      description: 'Show files anywhere in the layer with this change of the layers below',
    },
    sort: {
      type: 'string',
      value: 'size|name',
      completes: ['size', 'name'],
      description: 'Order of the files. Default: size, the largest first',
    },
    page: { type: 'string', value: 'NUMBER', description: 'Page of 100 files. Default: 1' },
    platform: {
      type: 'string',
      value: 'OS/ARCH',
      completes: supportedPlatforms,
      description: 'Platform of the image. Default: linux/amd64',
    },
    ...claimOptions,
    server: serverOption,
    json: jsonOption,
  },
  variables: { ...serverVariables, ...tokenVariable },

  async run(values, args) {
    const response = await whole(values, only(args, 'IMAGE'));
    print(values, response, [...table(head, response.files.map(cells)), ...summary(response)]);
    return response.state === 'complete' ? 0 : 1;
  },
};

/** Returns the response when no layer is being read any more. */
async function whole(values: Values, image: string): Promise<FilesResponse> {
  const query = new URLSearchParams({ wait: String(waitSeconds) });
  for (const name of filters) {
    const value = text(values, name);
    if (value !== undefined) query.set(name, value);
  }
  const body = { containerImage: image, ...(await claimOf(values)) };
  for (;;) {
    const response = (await post(
      values,
      `/v1alpha1/inspect/files?${query}`,
      body,
    )) as FilesResponse;
    if (response.state !== 'reading') return response;
    process.stderr.write(`The server reads the ${response.layers} layers of the image ...\n`);
  }
}

const head = ['change', 'mode', 'owner', 'bytes', 'path'];

function cells({ change = '-', mode = '-', uid, gid, bytes, ...file }: LayerFile): string[] {
  const owner = uid === undefined ? '-' : `${uid}:${gid}`;
  const path = file.kind === 'directory' ? `${file.path}/` : file.path;
  const target = file.target === undefined ? '' : ` -> ${file.target}`;
  return [change, mode, owner, String(bytes), path + target];
}

function summary(response: FilesResponse): string[] {
  const { number, layers, digest, bytes, count, page, pages, reason, waste } = response;
  return [
    '',
    `Layer ${number} of ${layers}: ${digest}${bytes === undefined ? '' : `, ${bytes} bytes`}`,
    ...(pages !== undefined && pages > 1 ? [`Page ${page} of ${pages}, ${count} files`] : []),
    ...(waste
      ? [`The image wastes ${waste.image.wastedBytes} of its ${waste.image.bytes} bytes`]
      : []),
    ...(reason === undefined ? [] : [terminalLine(reason)]),
  ];
}
