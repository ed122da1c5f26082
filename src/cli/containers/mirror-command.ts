import { supportedPlatforms } from '../../oci/naming.ts';
import { type Command, text, UsageError, type Values } from '../command/command.ts';
import { serverOption, serverVariables, tokenVariable } from '../command/common-options.ts';
import { followExits } from '../command/exit-codes.ts';
import { claimOf, claimOptions } from './caller-options.ts';
import { imageOptions, printImage } from './image-response.ts';
import { requestContainer } from './request-container.ts';
import { contentOf } from './source/source-options.ts';

/** `sluice mirror`: copies images as they are, and prints their new names. */
export const mirrorCommand: Command = {
  summary: 'Copy images as they are, with all platforms and signatures, and print their new names',
  usage: ['IMAGE... --to REPOSITORY', '--from-file FILE --to REPOSITORY'],
  options: {
    to: {
      type: 'string',
      value: 'REPOSITORY',
      description:
        'Registry or registry/path to copy to. The path and the tag of the image follow it',
    },
    'from-file': {
      type: 'string',
      value: 'FILE',
      completes: 'file',
      description: 'Read the names of images from a file, one a line; # begins a comment',
    },
    platform: {
      type: 'string',
      value: 'OS/ARCH',
      completes: supportedPlatforms,
      description: 'Copy the image of this platform only. Default: all platforms',
    },
    ...claimOptions,
    server: serverOption,
    ...imageOptions,
  },
  variables: { ...serverVariables, ...tokenVariable },
  exits: followExits,

  async run(values, args) {
    const to = text(values, 'to');
    if (to === undefined) throw new UsageError('Missing option: --to REPOSITORY');
    const images = [...args, ...(await imagesIn(text(values, 'from-file')))];
    if (images.length === 0) throw new UsageError('Missing argument: IMAGE');
    let worst = 0;
    for (const image of images) worst = Math.max(worst, await mirrorOne(values, image, to));
    return worst;
  },
};

async function mirrorOne(values: Values, image: string, to: string): Promise<number> {
  const response = await requestContainer(values, {
    containerImage: image,
    mirror: true,
    buildRepository: to,
    containerPlatform: text(values, 'platform'),
    dryRun: values['dry-run'],
    ...(await claimOf(values)),
    timestamp: new Date().toISOString(),
  });
  return printImage(values, response);
}

async function imagesIn(file: string | undefined): Promise<string[]> {
  if (file === undefined) return [];
  const lines = (await contentOf(file))
    .toString()
    .split('\n')
    .map(line => line.replace(/#.*/, '').trim());
  return lines.filter(line => line !== '');
}
