//! Which rank of a run this process is, where a launcher has started one process for each:
//! torchrun, Slurm, MPI, Kubernetes or Ray. Each tells its processes by environment variables.
//! librl reads none; a host does, checks what it finds, and sets comm.rank and comm.rendezvous.
//! docs/parallel.md lists the variables.
use std::env;

/// Launchers with their variables for rank and number of ranks. Of two rows for one launcher the
/// first that has a variable set counts.
const ROWS: [(&str, &str, &str); 6] = [
    ("torchrun", "RANK", "WORLD_SIZE"),
    ("slurm", "SLURM_PROCID", "SLURM_NTASKS"),
    ("mpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("mpi", "PMI_RANK", "PMI_SIZE"),
    ("kubernetes", "JOB_COMPLETION_INDEX", "WORLD_SIZE"),
    ("ray", "RANK", "WORLD_SIZE"),
];

/// That of a process among the ranks of its run.
pub struct Place {
    pub rank: u64,
    pub ranks: u64,
    pub rendezvous: String, // comm.rendezvous; "" for a single rank
}

/// A value, or what is wrong.
pub type Checked<T> = std::result::Result<T, String>;

fn text_of(name: &str) -> Checked<String> {
    let text = env::var_os(name).map(|text| text.to_string_lossy().into_owned());
    text.filter(|text| !text.is_empty()).ok_or_else(|| format!("{name} is not set"))
}

fn number_of(name: &str) -> Checked<u64> {
    let text = text_of(name)?;
    let is_number = text.len() <= 9 && text.bytes().all(|c| c.is_ascii_digit());
    let number = text.parse().ok().filter(|_| is_number);
    number.ok_or_else(|| format!("{name} is \"{text:.100}\", not a number"))
}

/// Where the ranks meet if nobody says otherwise. MASTER_PORT itself is torchrun's.
fn master() -> Checked<String> {
    let (host, port) = (text_of("MASTER_ADDR")?, number_of("MASTER_PORT")?);
    if !(1..=65534).contains(&port) {
        return Err(format!("MASTER_PORT is {port}, not 1 to 65534"));
    }
    Ok(format!("tcp:{host}:{}", port + 1))
}

/// The place that a launcher has given this process. The ranks meet at `meeting`, or at the port
/// after MASTER_PORT of MASTER_ADDR.
pub fn place_of(launcher: &str, meeting: Option<&str>) -> Checked<Place> {
    let rows: Vec<_> = ROWS.iter().filter(|row| row.0 == launcher).collect();
    let is_set = |name| env::var_os(name).is_some();
    let set = rows.iter().find(|row| is_set(row.1) || is_set(row.2));
    let row = set.or_else(|| rows.first());
    let (_, rank_name, ranks_name) =
        row.ok_or("it is none of torchrun, slurm, mpi, kubernetes and ray")?;
    let (rank, ranks) = (number_of(rank_name)?, number_of(ranks_name)?);
    if rank >= ranks {
        return Err(format!("{rank_name} is {rank}, but {ranks_name} is {ranks}"));
    }
    let rendezvous = match meeting {
        _ if ranks == 1 => String::new(),
        Some(place) => place.to_string(),
        None => master()?,
    };
    Ok(Place { rank, ranks, rendezvous })
}
