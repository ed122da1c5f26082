import { sizeText } from '../packed-context.ts';

/** Shows the progress of an upload: in place on a terminal, and elsewhere after its end. */
export interface UploadProgress {
  /** Notes that a blob is on the server; `sent` is false for a blob that was there before. */
  add(bytes: number, sent: boolean): void;
  end(succeeded: boolean): void;
}

const redrawMs = 200;

export function uploadProgress(
  sink: NodeJS.WriteStream,
  total: { readonly bytes: number; readonly files: number },
): UploadProgress {
  const isLive = sink.isTTY && process.env.TERM !== 'dumb';
  let done = 0;
  let sentBytes = 0;
  let drawnAt = 0;
  const draw = (text: string) => sink.write(`\r\x1b[K${text}`);
  return {
    add(bytes, sent) {
      done += bytes;
      if (sent) sentBytes += bytes;
      if (!isLive || Date.now() - drawnAt < redrawMs) return;
      drawnAt = Date.now();
      const parts = `${sizeText(done)} of ${sizeText(total.bytes)}, ${sizeText(sentBytes)} sent`;
      draw(`Uploading the build context: ${parts}`);
    },
    end(succeeded) {
      if (isLive) draw('');
      if (!succeeded) return;
      const whole = `${sizeText(total.bytes)} in ${total.files} files`;
      sink.write(`Build context: ${whole}, ${sizeText(sentBytes)} sent\n`);
    },
  };
}
