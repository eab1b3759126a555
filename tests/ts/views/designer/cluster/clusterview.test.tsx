import { nullTranslator } from '@jupyterlab/translation';
import { cleanup, fireEvent, render, screen, within } from '@testing-library/react';
import React from 'react';
import { describe, expect, it, vi } from 'vitest';

import type { ClusterDesign, Design, DesignReport } from '../../../../../src/api/schema';
import { emptyDesign } from '../../../../../src/model/designtext';
import { ClusterView, ClusterViewProps } from '../../../../../src/views/designer/cluster/clusterview';
import { clusterInfo, KINDS, runInfo, taskInfo } from '../../../fixtures';

const trans = nullTranslator.load('jupyter_dtf');
const GIB = 2 ** 30;

const HOSTS = [
  { name: 'a', cpus: 4, memory_bytes: 8 * GIB, gpus: [2 * GIB] },
  { name: 'b', cpus: 2, memory_bytes: 0, gpus: [] }
];

const SOURCES = [
  {
    label: 'this machine',
    hosts: () => Promise.resolve([{ name: 'here', cpus: 2, memory_bytes: GIB, gpus: [] }])
  },
  { label: 'Slurm', hosts: () => Promise.resolve([]) },
  { label: 'a wrong one', hosts: () => Promise.reject(new Error('The server says no')) }
];

function report(change: Partial<DesignReport> = {}): DesignReport {
  return {
    cluster_spec: { worker: ['localhost:0', 'localhost:0'] },
    tf_config: { 'worker:0': '{"task":{"type":"worker","index":0}}' },
    devices: { 'worker:0': '/job:worker/task:0/device:GPU:0', 'worker:1': '/job:worker/task:1/device:CPU:0' },
    problems: [],
    prediction: null,
    text: '',
    ...change
  };
}

/** Shows a design and applies its edits, as the document does. */
function show(cluster: Partial<ClusterDesign> = {}, change: Partial<ClusterViewProps> = {}) {
  const first = emptyDesign();
  first.cluster = { ...first.cluster, hosts: HOSTS, ...cluster };
  const labels: string[] = [];
  const now = { design: first };
  function Document(): React.ReactElement {
    const [design, setDesign] = React.useState<Design>(first);
    now.design = design;
    return (
      <ClusterView
        design={design}
        report={report()}
        failure=""
        readOnly={false}
        kinds={KINDS}
        sources={SOURCES}
        live={undefined}
        run={undefined}
        edit={(label, recipe) => {
          const draft = structuredClone(design);
          recipe(draft);
          labels.push(label);
          setDesign(draft);
        }}
        copy={vi.fn()}
        trans={trans}
        {...change}
      />
    );
  }
  render(<Document />);
  return { labels, cluster: () => now.design.cluster };
}

const task = (name: string) => screen.getByRole('button', { name: new RegExp(`^Task ${name}`) });
const said = () => document.querySelector('.jp-dtf-said')?.textContent;

function drag(what: HTMLElement, to: HTMLElement): void {
  const data = new Map<string, string>();
  const dataTransfer = {
    setData: (type: string, value: string) => data.set(type, value),
    getData: (type: string) => data.get(type) ?? '',
    get types() {
      return [...data.keys()];
    }
  };
  for (const [type, target] of [
    ['dragStart', what],
    ['dragOver', to],
    ['drop', to]
  ] as const) {
    fireEvent[type](target, { dataTransfer });
  }
}

describe('ClusterView', () => {
  it('does not ask for the number of hosts if they are drawn, whatever the kind calls it', () => {
    const local = KINDS[0]!;
    const option = local.fields[0]!;
    const kinds = [{ ...local, fields: [option, { ...option, name: 'n', title: 'Machines', counts_hosts: true }] }];
    show({}, { kinds });
    expect(screen.getByLabelText('Threads')).toBeTruthy();
    expect(screen.queryByLabelText('Machines')).toBeNull();
    cleanup();
    show({ hosts: [] }, { kinds });
    expect(screen.getByLabelText('Machines')).toBeTruthy();
  });

  it('shows tasks without a device at their job, and the others on their device', () => {
    show({ tasks: [{ job: 'worker', index: 0, host: 'a', device: 'GPU:0', memory_bytes: 0 }] });
    const slot = screen.getByRole('group', { name: 'GPU:0 of a, 1 task' });
    expect(within(slot).getByRole('button', { name: 'Task worker:0' })).toBeTruthy();
    const free = screen.getByRole('group', { name: 'Tasks of worker without a device' });
    expect(within(free).getAllByRole('button')).toHaveLength(1);
  });

  it('places a task or a whole job where it is dropped, and can take them back', () => {
    const { cluster, labels } = show();
    drag(task('worker:1'), screen.getByRole('group', { name: /^CPU of b/ }));
    expect(cluster().tasks).toEqual([{ job: 'worker', index: 1, host: 'b', device: 'CPU', memory_bytes: 0 }]);
    drag(
      screen.getByRole('button', { name: 'All tasks of worker' }),
      screen.getByRole('group', { name: /^GPU:0 of a/ })
    );
    expect(cluster().tasks.map(({ device }) => device)).toEqual(['GPU:0', 'GPU:0']);
    drag(task('worker:0'), screen.getByRole('region', { name: 'Jobs' }));
    expect(cluster().tasks.map(({ index }) => index)).toEqual([1]);
    expect(labels).toEqual(['Put worker:1 on b CPU', 'Put worker on a GPU:0', 'Unassign worker:0']);
  });

  it('places a task with the keyboard, announces it, and keeps the focus', () => {
    const { cluster } = show();
    task('worker:0').focus();
    fireEvent.keyDown(task('worker:0'), { key: 'Enter' });
    expect(said()).toMatch(/^worker:0 is picked up/);
    for (const [key, where] of [
      ['ArrowDown', 'a CPU'],
      ['ArrowDown', 'a GPU:0'],
      ['ArrowRight', 'b CPU'],
      ['ArrowLeft', 'a CPU'],
      ['ArrowUp', 'no device: assigned automatically'],
      ['End', 'b CPU']
    ] as const) {
      fireEvent.keyDown(task('worker:0'), { key });
      expect(said()).toBe(where);
    }
    fireEvent.keyDown(task('worker:0'), { key: 'Enter' });
    expect(said()).toBe('worker:0 is on b CPU');
    expect(cluster().tasks).toMatchObject([{ index: 0, host: 'b', device: 'CPU' }]);
    expect(document.activeElement).toBe(task('worker:0'));
    fireEvent.keyDown(task('worker:0'), { key: 'Delete' });
    expect(cluster().tasks).toEqual([]);
    expect(document.activeElement).toBe(task('worker:0'));
  });

  it('leaves a task where it was on Escape, or when it loses the focus', () => {
    const { labels } = show();
    const chip = task('worker:0');
    chip.focus();
    fireEvent.keyDown(chip, { key: 'Enter' });
    fireEvent.keyDown(chip, { key: 'ArrowDown' });
    fireEvent.keyDown(chip, { key: 'Escape' });
    expect(said()).toBe('worker:0 stays where it was');
    fireEvent.keyDown(chip, { key: 'Enter' });
    fireEvent.blur(chip);
    fireEvent.keyDown(chip, { key: 'ArrowDown' });
    expect(document.querySelectorAll('.jp-mod-target')).toHaveLength(0);
    expect(labels).toEqual([]);
  });

  it('applies a count when typing has ended, and rejects an invalid one with the rule', () => {
    const { cluster, labels } = show();
    const count = screen.getByLabelText('Tasks of worker');
    fireEvent.change(count, { target: { value: '12' } });
    expect(cluster().jobs).toEqual({ worker: 2 });
    fireEvent.blur(count);
    expect(cluster().jobs).toEqual({ worker: 12 });
    fireEvent.change(count, { target: { value: '0' } });
    fireEvent.keyDown(count, { key: 'Enter' });
    expect(cluster().jobs).toEqual({ worker: 12 });
    expect(screen.getByText(/whole number from 1 to 10000, got 0/)).toBeTruthy();
    fireEvent.keyDown(count, { key: 'Escape' });
    expect((count as HTMLInputElement).value).toBe('12');
    fireEvent.keyDown(count, { key: 'ArrowDown' });
    expect(cluster().jobs).toEqual({ worker: 11 });
    expect(labels).toEqual(['Change to 12 workers', 'Change to 11 workers']);
  });

  it('has units in words, and no symbol that looks like a button', () => {
    show({ jobs: { ps: 1, worker: 3 } });
    const line = (job: string) => screen.getByRole('listitem', { name: `Job ${job}` }).firstElementChild!.textContent;
    expect([line('ps'), line('worker')]).toEqual(['⠿task', '⠿tasks']); // after the fields' values
    expect(screen.getByText('CPU, 4 cores')).toBeTruthy();
    expect(document.body.textContent).not.toContain('×');
  });

  it('adds, renames, distributes and removes jobs', () => {
    const { cluster } = show();
    fireEvent.click(screen.getByRole('button', { name: 'Add a job' }));
    const name = screen.getByLabelText('Name of ps');
    fireEvent.change(name, { target: { value: 'worker' } });
    fireEvent.blur(name);
    expect(screen.getByText('A job must appear only once, got worker twice')).toBeTruthy();
    fireEvent.change(name, { target: { value: 'store' } });
    fireEvent.blur(name);
    expect(cluster().jobs).toEqual({ worker: 2, store: 1 });
    fireEvent.click(screen.getByRole('button', { name: 'Distribute worker over the devices' }));
    expect(cluster().tasks.map(({ host, device }) => `${host} ${device}`)).toEqual(['a GPU:0', 'a GPU:0']);
    fireEvent.click(screen.getByRole('button', { name: 'Remove the job store' }));
    expect(cluster().jobs).toEqual({ worker: 2 });
  });

  it('adds hosts by hand and from sources', async () => {
    const { cluster } = show({ hosts: [] });
    expect(screen.getByText(/^No hosts are drawn/)).toBeTruthy();
    const take = (value: string) => fireEvent.change(screen.getByLabelText('Draw the hosts of'), { target: { value } });
    take('1');
    expect(await screen.findByText('The hosts of Slurm are not known until it runs.')).toBeTruthy();
    take('2');
    expect(await screen.findByText('The server says no')).toBeTruthy();
    take('0');
    expect(await screen.findByRole('listitem', { name: 'Host here' })).toBeTruthy();
    expect(screen.queryByText('The server says no')).toBeNull();
    expect(cluster().hosts).toEqual([{ name: 'here', cpus: 2, memory_bytes: GIB, gpus: [] }]);
    fireEvent.click(screen.getByRole('button', { name: 'Add a host' }));
    expect(screen.getByRole('heading', { name: 'Host host-0' })).toBeTruthy(); // it is selected
    const enter = (label: string, value: string) => {
      fireEvent.change(screen.getByLabelText(label), { target: { value } });
      fireEvent.blur(screen.getByLabelText(label));
    };
    enter('Memory', '16');
    fireEvent.click(screen.getByRole('button', { name: 'Add a GPU' }));
    enter('Memory of GPU 0', '2.5');
    enter('Name', 'here');
    expect(screen.getByText('The name of a host must be unique and not empty, got "here"')).toBeTruthy();
    enter('Name', 'there');
    expect(cluster().hosts[1]).toEqual({ name: 'there', cpus: 4, memory_bytes: 16 * GIB, gpus: [2.5 * GIB] });
    fireEvent.click(screen.getByRole('button', { name: 'Remove the host' }));
    expect(cluster().hosts).toHaveLength(1);
  });

  it('shows the environment of the selected task, and changes its device and memory cap', () => {
    const copy = vi.fn();
    const { cluster } = show({}, { copy });
    fireEvent.click(task('worker:0'));
    const details = within(screen.getByRole('region', { name: 'Properties' }));
    expect(details.getByText('/job:worker/task:0/device:GPU:0')).toBeTruthy();
    fireEvent.click(details.getByRole('button', { name: 'Copy TF_CONFIG' }));
    expect(copy).toHaveBeenCalledWith('{"task":{"type":"worker","index":0}}');
    fireEvent.change(details.getByLabelText('Runs on'), { target: { value: '1' } });
    fireEvent.change(details.getByLabelText('Memory cap'), { target: { value: '1.5' } });
    fireEvent.blur(details.getByLabelText('Memory cap'));
    expect(cluster().tasks[0]).toMatchObject({ device: 'GPU:0', memory_bytes: 1.5 * GIB });
    fireEvent.keyDown(details.getByText('/job:worker/task:0/device:GPU:0'), { key: 'Escape' });
    expect(screen.getByLabelText('ClusterSpec').textContent).toContain('localhost:0');
  });

  it('shows problems at the task, the host and the job, with links to them', () => {
    const problem = (field: string, message: string, level = 'error') => ({
      field,
      message,
      level,
      line: 0,
      column: 0
    });
    show(
      { tasks: [{ job: 'worker', index: 1, host: 'a', device: 'GPU:7', memory_bytes: 0 }] },
      {
        report: report({
          problems: [
            problem('cluster.tasks[0].device', 'a has no GPU:7'),
            problem('cluster.hosts[1]', 'b is small', 'warning'),
            problem('cluster.jobs.worker', 'many workers', 'warning'),
            problem('cluster.tasks', 'this machine has no GPU'),
            problem('cluster.name', 'the name is taken')
          ]
        })
      }
    );
    expect(within(screen.getByRole('listitem', { name: 'Host b' })).getByText('b is small')).toBeTruthy();
    expect(within(screen.getByRole('listitem', { name: 'Job worker' })).getByText('many workers')).toBeTruthy();
    const cluster = within(screen.getByRole('region', { name: 'Properties' }));
    expect(cluster.getByText('this machine has no GPU')).toBeTruthy();
    expect(cluster.getAllByText('the name is taken')).toHaveLength(1);
    const strip = within(screen.getByRole('status', { name: 'Summary of the design' }));
    fireEvent.click(strip.getByRole('button', { name: 'cluster.tasks[0].device' }));
    const details = within(screen.getByRole('region', { name: 'Properties' }));
    expect(details.getByText('a has no GPU:7')).toBeTruthy();
  });

  it('shows the predicted step time and the needs of each task', () => {
    show(
      {},
      {
        report: report({
          prediction: {
            step_seconds: 0.184,
            bubble: 0.14,
            batch_size: 64,
            microbatches: 8,
            calibrated: true,
            cuts: [],
            timeline: [],
            problems: [],
            devices: [
              {
                device: '/job:worker/task:0/device:GPU:0',
                memory_bytes: 1.5 * GIB,
                memory_limit_bytes: 2 * GIB,
                share: 0.24,
                busy_s: 0.1,
                sent_bytes: 1024,
                received_bytes: 0,
                layers: 3,
                problem: '',
                unused: '',
                filled_bytes: 0
              }
            ]
          }
        })
      }
    );
    expect(screen.getByText('predicted step 184 ms · bubble 14% · fits')).toBeTruthy();
    fireEvent.click(screen.getByRole('button', { name: 'Task worker:0, needs 75% of its memory' }));
    expect(screen.getByText('1.5 / 2.0 GiB')).toBeTruthy();
    expect(screen.getByText('24%')).toBeTruthy();
  });

  it('shows the live load and memory of hosts, and the states of tasks', () => {
    const [host] = clusterInfo('digits').hosts;
    show(
      {},
      {
        live: clusterInfo('digits', {
          hosts: [{ ...host!, drawn: 'a' }],
          tasks: [{ task: 'worker:1', host: 'a', gpus: [], memory_bytes: 0 }]
        }),
        run: runInfo('r1', { tasks: [taskInfo('worker:0', { state: 'failed' })] })
      }
    );
    const card = within(screen.getByRole('listitem', { name: 'Host a' }));
    expect(card.getByText('50% CPU')).toBeTruthy();
    expect(card.getByRole('progressbar', { name: 'Memory in use: 1.2 / 4.0 GiB' })).toBeTruthy();
    expect(within(task('worker:0')).getByRole('img', { name: 'failed' })).toBeTruthy();
    expect(screen.getByRole('button', { name: 'Task worker:1, assigned to a CPU' })).toBeTruthy();
  });

  it('cannot be edited if it is read-only', () => {
    const { labels } = show({}, { readOnly: true });
    const chip = task('worker:0');
    expect(chip.getAttribute('draggable')).toBe('false');
    for (const key of ['Enter', 'ArrowDown', 'Enter', 'Delete']) {
      fireEvent.keyDown(chip, { key });
    }
    drag(chip, screen.getByRole('group', { name: /^CPU of b/ }));
    expect(labels).toEqual([]);
    expect(screen.getByLabelText<HTMLInputElement>('Tasks of worker').disabled).toBe(true);
    expect(screen.queryByRole('button', { name: 'Add a host' })).toBeNull();
  });
});
