"""Settings of the simulated machine, and of this process's place in a job."""

from __future__ import annotations

from habana_tf.settings import environment as kind
from habana_tf.settings.environment import Setting

# Of each its default and kind, and the meaning behind or below them.
# fmt: off

# --- the machine that is simulated ---

HABANA_SIM_CHIP = Setting("gaudi2", kind.choice("gaudi", "gaudi2", "gaudi3"), "Generation of the simulated cards.")
HABANA_SIM_CARDS = Setting(8, kind.integer(0, 8),
    "Number of cards in the simulated machine; a Gaudi server has eight. With 0 libraries that look for a card find "
    "none and take the CPU.")
HABANA_VISIBLE_MODULES = Setting((), kind.MODULE_IDS, "Module ids of the cards this process may use; unset means all.")
HLS_MODULE_ID = Setting(None, kind.MODULE_ID,
    "Module id of the card this process uses; unset means by local rank, or the first free visible one.",
    aliases=("HLS1_MODULE_ID",))

HABANA_SIM_STATE_DIR = Setting(None, kind.PATH,
    "Local directory of the simulated machine, where its cards are claimed; unset means one per user in "
    "XDG_RUNTIME_DIR or the temporary directory.")
XDG_RUNTIME_DIR = Setting(None, kind.PATH,
    "Where the system keeps this user's run-time files; set by the login, not by you.")
XDG_CACHE_HOME = Setting(None, kind.PATH,
    "Directory of this user's caches, ~/.cache if unset; habana_tf/ in it has what was measured of this CPU.")

# --- what a launcher says about this process: read, never set ---


def _launched(meaning: str) -> Setting[int | None]:
    return Setting(None, kind.COUNT, meaning)


HABANA_SIM_RANK = _launched("habana-tf run: rank of this process.")
HABANA_SIM_SIZE = _launched("habana-tf run: number of processes.")
HABANA_SIM_LOCAL_RANK = _launched("habana-tf run: rank of this process on its host.")
HABANA_SIM_LOCAL_SIZE = _launched("habana-tf run: number of processes on this host.")
HABANA_SIM_CHECKPOINT_NOTE = Setting(None, kind.FILE,
    "habana-tf run: file in which the program may write the path of its last checkpoint; when the job fails, the "
    "message has the command that resumes from there.")
HOROVOD_RANK = _launched("horovodrun: rank of this process.")
HOROVOD_SIZE = _launched("horovodrun: number of processes.")
HOROVOD_LOCAL_RANK = _launched("horovodrun: rank of this process on its host.")
HOROVOD_LOCAL_SIZE = _launched("horovodrun: number of processes on this host.")
HOROVOD_ELASTIC = Setting(False, kind.SWITCH,
    "horovodrun: ranks of this job come and go; a process takes another card if that of its local rank is held.")
RANK = _launched("torchrun: rank of this process.")
WORLD_SIZE = _launched("torchrun: number of processes.")
LOCAL_RANK = _launched("torchrun: rank of this process on its host.")
LOCAL_WORLD_SIZE = _launched("torchrun: number of processes on this host.")
LOCAL_SIZE = _launched("deepspeed: number of processes on this host.")
OMPI_COMM_WORLD_RANK = _launched("mpirun of Open MPI: rank of this process.")
OMPI_COMM_WORLD_SIZE = _launched("mpirun of Open MPI: number of processes.")
OMPI_COMM_WORLD_LOCAL_RANK = _launched("mpirun of Open MPI: rank on this host.")
OMPI_COMM_WORLD_LOCAL_SIZE = _launched("mpirun of Open MPI: processes on this host.")
PMI_RANK = _launched("mpirun of MPICH or Intel MPI: rank of this process.")
PMI_SIZE = _launched("mpirun of MPICH or Intel MPI: number of processes.")
MPI_LOCALRANKID = _launched("mpirun of MPICH or Intel MPI: rank on this host.")
MPI_LOCALNRANKS = _launched("mpirun of MPICH or Intel MPI: processes on this host.")
SLURM_STEP_NUM_TASKS = _launched("srun: number of processes of this job step.")
SLURM_PROCID = _launched("srun: rank of this process.")
SLURM_LOCALID = _launched("srun: rank of this process on its host.")
SLURM_NODEID = _launched("srun: number of this host in the job step.")
SLURM_STEP_TASKS_PER_NODE = Setting((), kind.PER_NODE, "srun: processes on each host of this job step.")

SLURM_STEP_NODELIST = Setting(None, kind.TEXT, "srun: the hosts of this job step.")
SLURM_JOB_ID = Setting(None, kind.TEXT, "srun: the job.")
SLURM_STEP_ID = Setting(None, kind.TEXT, "srun: the job step.")
PMIX_NAMESPACE = Setting(None, kind.TEXT, "mpirun of Open MPI: the name of this job.")

# --- several workers ---

MULTI_HLS_IPS = Setting((), kind.HOSTS,
    "Addresses of the hosts of a job under mpirun, in the order of the ranks; needed for more than one.")
HABANA_SIM_PORT_BASE = Setting(None, kind.PORT,
    "Port of the first worker of HPUStrategy under mpirun or srun without TF_CONFIG, rank r has the r-th after it; "
    "unset means ports by the name of the job.")
HABANA_SIM_STALL_SECONDS = Setting(60, kind.integer(0),
    "Seconds that a rank of PyTorch waits for others before it says who is missing, and where; collectives that do not "
    "go together are an error before. 0: it asks nobody.")
