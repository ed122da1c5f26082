/** How far the download of repository data is. */
export interface RepodataProgress {
  /** `conda-forge/linux-64` */
  readonly name: string;
  readonly bytes: number;
  /** 0 if unknown. */
  readonly totalBytes: number;
  readonly tookMs: number;
  readonly isDone: boolean;
}

/** Receives about every second how far a download is, and once when it has ended. */
export type ReportRepodata = (progress: RepodataProgress) => void;

const reportMs = 1000;

/** A download that several callers may wait for. It changes while they look at it. */
export class RepodataDownload {
  readonly #name: string;
  readonly #began = performance.now();
  #bytes = 0;
  #totalBytes = 0;

  constructor(name: string) {
    this.#name = name;
  }

  received(bytes: number, totalBytes = 0): void {
    this.#bytes = bytes;
    this.#totalBytes = totalBytes;
  }

  /** Reports until it is disposed of, then the end. Nothing is reported when nothing has arrived. */
  watch(report: ReportRepodata): Disposable {
    const tell = (isDone: boolean) => {
      const [bytes, tookMs] = [this.#bytes, performance.now() - this.#began];
      const totalBytes = isDone ? bytes : this.#totalBytes;
      if (bytes > 0) report({ name: this.#name, bytes, totalBytes, tookMs, isDone });
    };
    const timer = setInterval(tell, reportMs, false).unref();
    return {
      [Symbol.dispose]() {
        clearInterval(timer);
        tell(true);
      },
    };
  }
}

/** Returns the name of repository data for people: the end of its address, which holds no secret. */
export function repodataName(channel: string, subdir: string): string {
  return `${channel.slice(channel.lastIndexOf('/') + 1)}/${subdir}`;
}
